package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/session"
	"github.com/toold/toold/internal/store/postgres"
	"github.com/toold/toold/internal/store/sqlite"
	"github.com/toold/toold/internal/tool"
)

// store is what both databases give.
type store interface {
	audit.Store
	session.Store
	// Maintain makes room for what is to come and erases what has expired at now.
	Maintain(ctx context.Context, now time.Time) error
	Close() error
}

// openStore opens the configured database. name is what GetServerInfo calls it.
func openStore(ctx context.Context, c Config, data *dataDir) (s store, name string, err error) {
	if c.DatabaseURL != "" {
		s, err = postgres.Open(ctx, c.DatabaseURL, postgres.Options{Retention: c.Retention.Events})
		return s, "postgres", err
	}
	s, err = sqlite.Open(ctx, data.join(databaseName), sqlite.Options{Retention: c.Retention.Events})
	return s, "sqlite", err
}

// migrate brings the configured database to this version's schema.
func migrate(ctx context.Context, c Config, out io.Writer) error {
	where := "the database"
	if c.DatabaseURL != "" {
		if err := postgres.Migrate(ctx, c.DatabaseURL); err != nil {
			return err
		}
	} else {
		data, err := chosenDataDir(c)
		if err != nil {
			return err
		}
		defer func() { _ = data.Close() }()
		s, err := sqlite.Open(ctx, data.join(databaseName), sqlite.Options{Retention: c.Retention.Events})
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
		where = data.join(databaseName)
	}
	_, err := fmt.Fprintf(out, "%s has the schema of toold %s\n", where, fullVersion())
	return err
}

// maintain looks after the store at once and then daily, until ctx ends.
func maintain(ctx context.Context, s store, log *slog.Logger) {
	day := time.NewTicker(24 * time.Hour)
	defer day.Stop()
	for {
		if err := s.Maintain(ctx, time.Now()); err != nil && ctx.Err() == nil {
			log.Error("maintaining the store failed; it is tried again tomorrow", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-day.C:
		}
	}
}

// contents finds artifacts for the tools that read them.
type contents struct{ artifact.Store }

func newContents(disk *artifact.Disk, ledger audit.Reader) contents {
	return contents{artifact.Store{Disk: disk, Index: index{ledger}}}
}

// index is the ledger as an artifact.Index.
type index struct{ audit.Reader }

// Artifact implements artifact.Index.
func (i index) Artifact(ctx context.Context, tenant, id string) (artifact.Record, error) {
	row, err := i.Reader.Artifact(ctx, tenant, id)
	if errors.Is(err, audit.ErrNotFound) {
		return artifact.Record{}, artifact.ErrNotFound
	}
	if err != nil {
		return artifact.Record{}, err
	}
	return artifact.Record{
		ID: id, Blob: artifact.Blob{SHA256: fmt.Sprintf("%x", row.SHA256), Size: row.Size}, MediaType: row.MediaType,
	}, nil
}

// Open gives the file tools the bytes of an artifact of the caller's tenant;
// fs.ErrNotExist where there are none.
func (c contents) Open(ctx context.Context, caller tool.Caller, uri string) (io.ReaderAt, int64, func(), error) {
	id, ok := artifact.ParseURI(uri)
	if !ok || uuid.Validate(id) != nil {
		return nil, 0, nil, fs.ErrNotExist
	}
	body, _, err := c.Store.Open(ctx, caller.Tenant, id)
	switch {
	case errors.Is(err, artifact.ErrNotFound), errors.Is(err, artifact.ErrGone):
		return nil, 0, nil, fs.ErrNotExist
	case err != nil:
		return nil, 0, nil, err
	}
	return body, body.Size(), func() { _ = body.Close() }, nil
}
