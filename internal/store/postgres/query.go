package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Query runs one statement for a person and gives each the names of the columns,
// then the rows. NULL is nil.
//
// The statement runs in a transaction that cannot write, alone (a second one in
// the same text is refused by the server), and only if it gives rows: COPY to a
// file or a program, DO, CALL, SET and the like are refused before they run. What
// remains is what the role of dsn may read and call: an auditor wants a role
// that may do no more than SELECT.
func Query(ctx context.Context, dsn, statement string, each func(row []any) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// Whatever mode dsn asks for, a prepared statement is one statement.
		const name = "toold_sql"
		prepared, err := tx.Prepare(ctx, name, statement)
		if err != nil {
			return err
		}
		if len(prepared.Fields) == 0 {
			return errors.New("the database is read-only here, and this statement gives no rows: ask with SELECT, WITH, VALUES, TABLE, SHOW or EXPLAIN")
		}
		rows, err := tx.Query(ctx, name)
		if err != nil {
			return err
		}
		defer rows.Close()
		return eachRow(rows, each)
	})
}

func eachRow(rows pgx.Rows, each func(row []any) error) error {
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
}
