package main

import (
	"fmt"
	"io"
	"os"

	"github.com/toold/toold/cmd/toolctl/internal/batchfile"
)

// readFile reads a file that a user named, "-" being standard input, up to the
// size that a request can have.
func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		return limited("standard input", a.in)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return limited(name, f)
}

// limited reads all of r, up to the size that a request can have.
func limited(name string, r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, batchfile.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(b) > batchfile.MaxBytes {
		return nil, fmt.Errorf("%s is larger than %d MiB", name, batchfile.MaxBytes>>20)
	}
	return b, nil
}
