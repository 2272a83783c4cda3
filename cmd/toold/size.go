package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as a number or with KiB, MiB or GiB.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// UnmarshalText reads "262144" or "256KiB".
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), Size(1)
	for _, u := range sizeUnits {
		if cut, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(cut), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(unit) {
		return fmt.Errorf("%q is no size; write bytes, or a number with KiB, MiB or GiB", text)
	}
	*s = Size(n) * unit
	return nil
}

// String gives the size with the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s >= u.bytes && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
