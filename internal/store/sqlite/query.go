package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// Query runs one statement for a person, on a connection that cannot write, and
// gives each the names of the columns, then the rows. NULL is nil. The database
// at path must exist; a daemon may have it open.
func Query(ctx context.Context, path, statement string, each func(row []any) error) (err error) {
	db, err := connect(path, 1, "query_only(1)")
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	row := make([]any, len(names))
	for i, n := range names {
		row[i] = n
	}
	if err := each(row); err != nil {
		return err
	}
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return rows.Err()
}
