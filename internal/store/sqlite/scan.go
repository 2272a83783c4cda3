package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// rowScanner is *sql.Row or *sql.Rows.
type rowScanner interface{ Scan(dest ...any) error }

// The functions below read a row by its columns of rows.go; more is scanned
// behind them (the row's place).

func scanBatch(r rowScanner, b *audit.Batch, more ...any) error {
	return r.Scan(append([]any{
		at{&b.AcceptedAt},
		&b.ID, &b.Tenant, &b.RequestID,
		digest{&b.RequestDigest},
		text[tool.SessionID]{&b.Session},
		text[string]{&b.Workspace},
		&b.Principal,
		text[string]{&b.OnBehalfOf},
		text[string]{&b.AgentID},
		text[string]{&b.AgentVersion},
		text[string]{&b.Model},
		text[string]{&b.ConversationID},
		&b.ScheduleMode, &b.CallCount,
		number{&b.ContextRemaining},
		decoded{&b.Labels},
		text[string]{&b.PeerAddr},
		text[string]{&b.UserAgent},
		text[string]{&b.TraceID},
		&b.Replica,
		&b.PolicyVersion, &b.CatalogRevision,
	}, more...)...)
}

func scanDecision(r rowScanner, d *audit.Decision, more ...any) error {
	f := new(audit.CallFacts)
	var index sql.NullInt64
	err := r.Scan(append([]any{
		at{&d.DecidedAt},
		&d.ID, &d.Tenant, &d.Batch, &d.Call, &d.No, &d.Tool,
		class{&d.Class},
		&d.Verdict, &d.Reason, &d.ReasonCode,
		&d.PolicyID, &d.PolicyVersion,
		decoded{&d.Matched},
		&d.Stage,
		digest{&d.ArgsDigest},
		text[string]{&d.ApprovalID},
		&d.DecidedBy,
		&index,
		text[string]{&f.ToolVersion},
		text[string]{&f.Tier},
		class{&f.DeclaredClass},
		idempotency{&f.Idempotency},
		decoded{&f.Effects},
		text[string]{&f.ArgsMasked},
		text[string]{&f.Rationale},
		&d.Principal,
		text[string]{&d.OnBehalfOf},
		text[tool.SessionID]{&d.Session},
		number{&d.SessionEpoch},
		number{&d.EvalMicros},
	}, more...)...)
	if index.Valid {
		f.Index = int(index.Int64)
		d.First = f
	}
	return err
}

func scanStart(r rowScanner, s *audit.StartRow, more ...any) error {
	return r.Scan(append([]any{
		at{&s.StartedAt},
		&s.Batch, &s.Call, &s.Attempt, &s.Tenant, &s.Decision,
		digest{&s.Args},
		&s.Executor, &s.Replica,
		text[string]{&s.Workspace},
	}, more...)...)
}

func scanOutcome(r rowScanner, o *audit.Outcome, more ...any) error {
	var exit sql.NullInt64
	err := r.Scan(append([]any{
		at{&o.FinishedAt},
		&o.Batch, &o.Call, &o.Attempt, &o.Tenant, &o.Tool, &o.Tier,
		class{&o.Class},
		outcome{&o.Outcome},
		text[string]{&o.ErrorReason},
		text[string]{&o.ErrorDomain},
		&exit,
		text[string]{&o.ExitSignal},
		millis{&o.Queue},
		millis{&o.Approval},
		millis{&o.Run},
		text[string]{&o.OutputKind},
		&o.OutputBytes,
		digest{&o.OutputSHA256},
		&o.OutputTokens, &o.KeptTokens, &o.Truncated,
		decoded{&o.ArtifactIDs},
		text[string]{&o.RecoveredBy},
	}, more...)...)
	if exit.Valid {
		code := int(exit.Int64)
		o.ExitCode = &code
	}
	return err
}

func scanArtifact(r rowScanner, e *audit.ArtifactEvent, more ...any) error {
	return r.Scan(append([]any{
		at{&e.At},
		&e.EventID, &e.Artifact, &e.Tenant,
		text[tool.BatchID]{&e.Batch},
		text[tool.CallID]{&e.Call},
		&e.Event, &e.Actor,
		text[string]{&e.Name},
		number{&e.Size},
		digest{&e.SHA256},
		text[string]{&e.MediaType},
	}, more...)...)
}

func scanAdmin(r rowScanner, e *audit.AdminEvent, more ...any) error {
	return r.Scan(append([]any{
		at{&e.At},
		&e.EventID, &e.Tenant, &e.Actor, &e.Event, &e.Subject,
		text[string]{&e.Before},
		text[string]{&e.After},
		text[string]{&e.Reason},
	}, more...)...)
}

func scanLive(r rowScanner, b *audit.LiveBatch, more ...any) error {
	return r.Scan(append([]any{
		&b.ID, &b.Tenant, &b.Principal, &b.RequestID,
		text[tool.SessionID]{&b.Session},
		text[string]{&b.Workspace},
		decoded{&b.Labels},
		&b.State, &b.Request,
		at{&b.AcceptedAt},
		at{&b.Deadline},
		at{&b.EndedAt},
		&b.LastSeq,
	}, more...)...)
}

// The types below are scan targets: NULL leaves the zero value.

type at struct{ to *time.Time }

func (a at) Scan(v any) error {
	if v == nil {
		return nil
	}
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("a time is %T, want text", v)
	}
	t, err := time.Parse(stampLayout, s)
	*a.to = t
	return err
}

type text[S ~string] struct{ to *S }

func (t text[S]) Scan(v any) error {
	var s sql.NullString
	err := s.Scan(v)
	*t.to = S(s.String)
	return err
}

type number struct{ to *int64 }

func (n number) Scan(v any) error {
	var i sql.NullInt64
	err := i.Scan(v)
	*n.to = i.Int64
	return err
}

type millis struct{ to *time.Duration }

func (m millis) Scan(v any) error {
	var n int64
	err := number{&n}.Scan(v)
	*m.to = time.Duration(n) * time.Millisecond
	return err
}

type digest struct{ to *audit.Digest }

func (d digest) Scan(v any) error {
	if v == nil {
		return nil
	}
	b, ok := v.([]byte)
	if !ok || len(b) != len(d.to) {
		return fmt.Errorf("a digest is not %d bytes", len(d.to))
	}
	copy(d.to[:], b)
	return nil
}

type decoded struct{ to any }

func (d decoded) Scan(v any) error {
	var s string
	if err := (text[string]{&s}).Scan(v); err != nil || s == "" || s == "{}" || s == "[]" {
		return err
	}
	return json.Unmarshal([]byte(s), d.to)
}

type class struct{ to *tool.Class }

func (c class) Scan(v any) error {
	var s string
	err := text[string]{&s}.Scan(v)
	*c.to, _ = tool.ParseClass(s)
	return err
}

type outcome struct{ to *tool.Outcome }

func (o outcome) Scan(v any) error {
	var s string
	err := text[string]{&s}.Scan(v)
	*o.to = tool.ParseOutcome(s)
	return err
}

type idempotency struct{ to *tool.Idempotency }

func (i idempotency) Scan(v any) error {
	var s string
	err := text[string]{&s}.Scan(v)
	if s == tool.Idempotent.String() {
		*i.to = tool.Idempotent
	}
	return err
}
