package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpu is processor time used so far, by who used it. It shows where the time of
// a batch goes where all share the cores.
type cpu struct{ daemon, postgres, client time.Duration }

func (d *daemon) cpu() cpu {
	var c cpu
	var self syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &self) == nil {
		c.client = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	}
	c.daemon = cpuOf(strconv.Itoa(d.cmd.Process.Pid))
	if d.dsn == "" {
		return c
	}
	all, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range all {
		if b, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(b)) == "postgres" {
			c.postgres += cpuOf(filepath.Base(filepath.Dir(name)))
		}
	}
	return c
}

// cpuOf is the processor time of a process and of its children that have ended;
// 0 when it is gone.
func cpuOf(pid string) time.Duration {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 15 {
		return 0
	}
	var ticks int64
	for _, field := range f[11:15] { // user, system, and both of ended children
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	const tick = time.Second / 100 // USER_HZ, 100 on every Linux port of Go
	return time.Duration(ticks) * tick
}

// since is what was used between two readings, a batch.
func (c cpu) since(before cpu, batches int) string {
	each := func(d time.Duration) float64 { return ms(d) / float64(max(batches, 1)) }
	return fmt.Sprintf("CPU a batch: daemon %.2f ms, Postgres %.2f ms, client %.2f ms",
		each(c.daemon-before.daemon), each(c.postgres-before.postgres), each(c.client-before.client))
}
