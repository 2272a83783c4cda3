package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Query runs one statement for a person, in a transaction that cannot write, and
// gives each the names of the columns, then the rows. NULL is nil.
func Query(ctx context.Context, dsn, statement string, each func(row []any) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, statement)
		if err != nil {
			return err
		}
		defer rows.Close()
		var names []any
		for _, f := range rows.FieldDescriptions() {
			names = append(names, f.Name)
		}
		if err := each(names); err != nil {
			return err
		}
		for rows.Next() {
			row, err := rows.Values()
			if err != nil {
				return err
			}
			if err := each(row); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
