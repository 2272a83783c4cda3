package main

import (
	"reflect"
	"time"
)

// most is the largest value of keys that have one.
var most = map[string]int64{
	"commands.grace":         int64(8 * time.Second), // less than a tool has to stop
	"limits.callsPerBatch":   1024,
	"limits.argumentsBytes":  8 << 20,
	"limits.parallelReads":   256,
	"limits.inlineBytes":     1 << 20,
	"limits.maxBatchTimeout": int64(30 * 24 * time.Hour),
}

// least is the smallest value of keys for which that is not 1.
var least = map[string]int64{
	"heartbeat":             int64(5 * time.Second),
	"sendTimeout":           int64(time.Second),
	"limits.argumentsBytes": 1 << 10,
	"limits.captureBytes":   1 << 20,
	"limits.callTimeout":    int64(time.Second),
	"limits.batchTimeout":   int64(time.Second),
	"retention.events":      int64(time.Minute),
	"retention.requests":    int64(time.Hour),
	"drainTimeout":          0,
	"commands.cpu":          0,
	"commands.memory":       0,
	"commands.fileSize":     0,
	"commands.openFiles":    0,
	"commands.processes":    0,
}

// checkNumbers holds every number against its bounds: at least 1 and no most,
// where the tables say nothing else.
func (c *Config) checkNumbers(bad func(key, format string, args ...any)) {
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for i := range v.NumField() {
			f, key := v.Field(i), prefix+v.Type().Field(i).Tag.Get("yaml")
			switch f.Kind() {
			case reflect.Struct:
				walk(f, key+".")
			case reflect.Int, reflect.Int64:
				low, ok := least[key]
				if !ok {
					low = 1
				}
				say := func(n int64) any { return reflect.ValueOf(n).Convert(f.Type()).Interface() }
				if f.Int() < low {
					bad(key, "%v is too little; give at least %v", f.Interface(), say(low))
				}
				if high, ok := most[key]; ok && f.Int() > high {
					bad(key, "%v is too much; give at most %v", f.Interface(), say(high))
				}
			}
		}
	}
	walk(reflect.ValueOf(*c), "")
	if c.Limits.BatchTimeout > c.Limits.MaxBatchTimeout {
		bad("limits.batchTimeout", "%v is more than limits.maxBatchTimeout, %v", c.Limits.BatchTimeout, c.Limits.MaxBatchTimeout)
	}
}
