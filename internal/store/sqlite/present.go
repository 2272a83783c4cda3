package sqlite

import (
	"fmt"
	"os"
)

// present watches that the database is still where it was opened: what is
// committed to a file that somebody has removed is gone with the process. The
// journal counts too: it holds the newest commits.
type present struct {
	path string
	db   os.FileInfo
	wal  os.FileInfo // nil until it was first seen
}

func newPresent(path string) (*present, error) {
	db, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &present{path: path, db: db}, nil
}

// check fails once a file is missing or another one has its name.
func (p *present) check() error {
	if now, err := os.Stat(p.path); err != nil || !os.SameFile(now, p.db) {
		return fmt.Errorf("%s was removed or replaced while in use; put it back, or restart toold", p.path)
	}
	now, err := os.Stat(p.path + "-wal")
	switch {
	case p.wal == nil && err == nil:
		p.wal = now
	case p.wal != nil && (err != nil || !os.SameFile(now, p.wal)):
		return fmt.Errorf("%s-wal was removed or replaced while in use; restart toold", p.path)
	}
	return nil
}
