package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/toold/toold/internal/audit"
)

// lane is the one connection that writes the ledger. It is made when it is
// needed, and given up after any error that is not about a row.
//
// Each connection of a lane holds the session lock key. A new one first ends the
// backend that still has it, and takes it: from then on no commit of an earlier
// connection can be under way, and what Head says is final.
type lane struct {
	config *pgx.ConnConfig
	unsafe bool
	key    int64
	turn   chan struct{} // holds a token while the lane is free
	conn   *pgconn.PgConn
	closed bool
	out    message
}

func (l *lane) close() {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	l.closed = true
	l.drop()
}

func (l *lane) drop() {
	if l.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.conn.Close(ctx)
		l.conn = nil
	}
}

// use runs f on the connection. Any error but one about rows gives it up.
func (l *lane) use(ctx context.Context, f func(*pgconn.PgConn) error) error {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	if l.closed {
		return errors.New("the store is closed")
	}
	if l.conn == nil || l.conn.IsClosed() {
		if err := l.connect(ctx); err != nil {
			l.drop()
			return fmt.Errorf("connecting to the database: %w", err)
		}
	}
	err := f(l.conn)
	if err != nil && !isDataError(err) {
		l.drop()
	}
	return err
}

func (l *lane) connect(ctx context.Context) (err error) {
	if l.conn, err = pgconn.ConnectConfig(ctx, &l.config.Config); err != nil {
		return err
	}
	r := l.conn.ExecParams(ctx, `SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')`,
		nil, nil, nil, nil).Read()
	if r.Err != nil {
		return r.Err
	}
	var off []string
	for i, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if string(r.Rows[0][i]) == "off" {
			off = append(off, name)
		}
	}
	if len(off) > 0 && !l.unsafe {
		return fmt.Errorf("the server may lose what it has acknowledged: turn on %s", strings.Join(off, ", "))
	}
	// Pinned, so that a reload of the server's configuration cannot turn it off.
	// What the lane looks up has an index, and its plans are kept from when the
	// tables were empty: without enable_seqscan they stay right when they are not.
	pin := `SELECT set_config('enable_seqscan', 'off', false), set_config('synchronous_commit', current_setting('synchronous_commit'), false)`
	end := `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
		AND classid = ($1::bigint >> 32 & 4294967295)::oid AND objid = ($1::bigint & 4294967295)::oid AND objsubid = 1`
	key := []byte(strconv.FormatInt(l.key, 10))
	for _, text := range []string{end, `SELECT pg_advisory_lock($1::bigint)`, pin} {
		var args [][]byte
		if strings.Contains(text, "$1") {
			args = [][]byte{key}
		}
		if r := l.conn.ExecParams(ctx, text, args, nil, nil, nil).Read(); r.Err != nil {
			return r.Err
		}
	}
	if err := l.alone(ctx); err != nil {
		return err
	}
	_, err = l.conn.Prepare(ctx, "ends", endSQL, nil)
	return err
}

// ownerKey is the advisory lock that the one writing daemon of a database holds.
const ownerKey = "500237755236" // "toold" as a number

// aloneWait is how long a predecessor's connection may take to be noticed gone.
const aloneWait = 5 * time.Second

// alone makes sure that no other daemon writes here: a second one would adopt
// the first one's running batches.
func (l *lane) alone(ctx context.Context) error {
	for until := time.Now().Add(aloneWait); ; {
		r := l.conn.ExecParams(ctx, `SELECT pg_try_advisory_lock($1::bigint)`, [][]byte{[]byte(ownerKey)}, nil, nil, nil).Read()
		switch {
		case r.Err != nil:
			return r.Err
		case string(r.Rows[0][0]) == "t":
			return nil
		case time.Now().After(until):
			return errors.New("another toold uses this database; stop it, or give this one a database of its own")
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("another toold uses this database: %w", ctx.Err())
		}
	}
}

func head(ctx context.Context, c *pgconn.PgConn, query string, args ...[]byte) (no int64, hash audit.Digest, err error) {
	r := c.ExecParams(ctx, query, args, nil, nil, []int16{pgx.BinaryFormatCode}).Read()
	if r.Err != nil || len(r.Rows) == 0 {
		return 0, hash, r.Err
	}
	copy(hash[:], r.Rows[0][1])
	return int64(binary.BigEndian.Uint64(r.Rows[0][0])), hash, nil
}

// Commit implements audit.Store. It hopes that no claim is lost: then everything
// from BEGIN to COMMIT goes out in one piece, and there is one round trip.
func (s *Store) Commit(ctx context.Context, g audit.Group) error {
	return s.lane.use(ctx, func(*pgconn.PgConn) error {
		b := g.Seal(make([]*audit.TakenError, len(g.Claims)))
		if b == nil {
			return nil
		}
		err := s.lane.flush(ctx, g.Claims, b, true)
		if !taken(err) {
			return err
		}
		return s.lane.claimFirst(ctx, g)
	})
}

// taken reports whether err says that a request id is another batch's.
func taken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505" && pg.SchemaName == "exec" && pg.TableName == "request_ids"
}

const (
	claimSQL = `INSERT INTO exec.request_ids (team_id, principal, request_id, request_digest, batch_id, expires_at)
		VALUES ($1, $2, $3, $4, $5, to_timestamp($6::float8 / 1e6)) ON CONFLICT DO NOTHING`
	holderSQL = `SELECT batch_id::text, request_digest FROM exec.request_ids WHERE team_id = $1 AND principal = $2 AND request_id = $3`
	// endSQL has one array a column.
	endSQL = `UPDATE exec.batches b SET state = e.state, ended_at = to_timestamp(e.at::float8 / 1e6), last_seq = e.seq
		FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[]) AS e (id, state, at, seq) WHERE b.batch_id = e.id`
)

// claimFirst is Commit for a group that has lost a claim.
func (l *lane) claimFirst(ctx context.Context, g audit.Group) error {
	if r := l.conn.ExecParams(ctx, `BEGIN`, nil, nil, nil, nil).Read(); r.Err != nil {
		return r.Err
	}
	lost, err := l.claim(ctx, g.Claims)
	if err == nil {
		if b := g.Seal(lost); b != nil {
			return l.flush(ctx, nil, b, false)
		}
	}
	r := l.conn.ExecParams(ctx, `ROLLBACK`, nil, nil, nil, nil).Read()
	return errors.Join(err, r.Err)
}

func (l *lane) claim(ctx context.Context, claims []audit.Claim) ([]*audit.TakenError, error) {
	lost := make([]*audit.TakenError, len(claims))
	for i, c := range claims {
		key := [][]byte{[]byte(c.Tenant), []byte(c.Principal), []byte(c.RequestID)}
		args := append(key[:3:3], c.Digest[:], []byte(c.Batch), strconv.AppendInt(nil, c.ExpiresAt.UnixMicro(), 10))
		r := l.conn.ExecParams(ctx, claimSQL, args, nil, []int16{0, 0, 0, 1, 0, 0}, nil).Read()
		if r.Err != nil {
			return nil, fmt.Errorf("claiming a request id: %w", r.Err)
		}
		if r.CommandTag.RowsAffected() == 1 {
			continue
		}
		r = l.conn.ExecParams(ctx, holderSQL, key, nil, nil, []int16{0, 1}).Read()
		if r.Err != nil {
			return nil, fmt.Errorf("reading who has a request id: %w", r.Err)
		}
		if len(r.Rows) == 0 {
			return nil, errors.New("a request id was taken and given up at the same moment")
		}
		lost[i] = &audit.TakenError{Batch: batchID(r.Rows[0][0])}
		copy(lost[i].Digest[:], r.Rows[0][1])
	}
	return lost, nil
}

// flush sends a whole block and COMMIT in one write, and then reads the answers.
// The server works through the messages one after the other; when one fails it
// refuses the rest and the COMMIT becomes a ROLLBACK. This is what the protocol
// calls pipelining; COPY takes part in it because the server throws copy data away
// that comes after a failed COPY.
func (l *lane) flush(ctx context.Context, claims []audit.Claim, b *audit.Block, begin bool) error {
	m := &l.out
	m.reset()
	if begin {
		m.query("BEGIN")
	}
	m.block(claims, b)
	m.query("COMMIT")

	net := l.conn.Conn()
	deadline, _ := ctx.Deadline()
	if err := net.SetDeadline(deadline); err != nil {
		return err
	}
	cancel := context.AfterFunc(ctx, func() { _ = net.SetDeadline(time.Unix(1, 0)) })
	defer cancel()
	if _, err := net.Write(m.b); err != nil {
		return fmt.Errorf("sending a block: %w", err)
	}
	if err := l.answers(m.answers); err != nil {
		return err
	}
	if !cancel() {
		return ctx.Err() // its deadline may hit the next user of the connection
	}
	return net.SetDeadline(time.Time{})
}

// answers reads until the server has been ready n times. The first error is the
// one that counts: the others follow from it.
func (l *lane) answers(n int) error {
	var failed error
	last := ""
	for n > 0 {
		msg, err := l.conn.Frontend().Receive()
		if err != nil {
			return fmt.Errorf("reading the server's answer: %w", err)
		}
		switch msg := msg.(type) {
		case *pgproto3.ReadyForQuery:
			n--
		case *pgproto3.CommandComplete:
			last = string(msg.CommandTag)
		case *pgproto3.ErrorResponse:
			if failed == nil {
				failed = fmt.Errorf("writing a block: %w", pgconn.ErrorResponseToPgError(msg))
			}
			if msg.Severity == "FATAL" {
				return failed
			}
		}
	}
	if failed == nil && last != "COMMIT" {
		failed = fmt.Errorf("the server answered COMMIT with %q", last)
	}
	return failed
}
