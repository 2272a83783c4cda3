package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// leafVersion is the version of the leaf format described at leaf.
const leafVersion = 1

// leaf is the canonical form of one ledger row, the thing that is hashed:
//
//	leaf   = SHA-256( 0x00 ‖ column(table) ‖ version ‖ column… )
//	column = 0x00                          for NULL
//	       | uvarint(len(value)+1) ‖ value otherwise
//
// version is one byte, 1. The columns are those that the table's method below
// lists, in that order; block_no, leaf_no and writer_id are not among them (the
// tree and the block hash bind them), nor is anything generated. A value is
//
//	text       UTF-8; an empty one is NULL where the column may be NULL
//	integer    8 bytes, big-endian two's complement
//	boolean    1 byte, 0 or 1
//	timestamp  microseconds since 1970 UTC, rounded down, as an integer
//	uuid       16 bytes
//	bytes      themselves
//	list       the columns of its elements, one after the other
//	map        key and value columns, sorted by key
//
// The first thing that cannot be written is kept in err; after that all else is
// a no-op.
type leaf struct {
	buf []byte
	now time.Time // zero: times are not checked
	err *InvalidError
}

func (l *leaf) begin(table string) {
	l.buf = append(l.buf[:0], 0)
	l.bytes([]byte(table))
	l.buf = append(l.buf, leafVersion)
}

func (l *leaf) sum() Digest { return sha256.Sum256(l.buf) }

func (l *leaf) fail(field, problem string) {
	if l.err == nil {
		l.err = &InvalidError{Field: field, Problem: problem}
	}
}

func (l *leaf) null() { l.buf = append(l.buf, 0) }

func (l *leaf) bytes(b []byte) {
	l.buf = binary.AppendUvarint(l.buf, uint64(len(b))+1)
	l.buf = append(l.buf, b...)
}

// text is a column that is never NULL.
func (l *leaf) text(field, s string) {
	if !utf8.ValidString(s) {
		l.fail(field, "is not valid UTF-8")
	} else if strings.IndexByte(s, 0) >= 0 {
		l.fail(field, "holds a NUL byte")
	}
	l.buf = binary.AppendUvarint(l.buf, uint64(len(s))+1)
	l.buf = append(l.buf, s...)
}

// need is a text column that must say something.
func (l *leaf) need(field, s string) {
	if s == "" {
		l.fail(field, "is empty")
	}
	l.text(field, s)
}

// maybe is a text column that is NULL when empty.
func (l *leaf) maybe(field, s string) {
	if s == "" {
		l.null()
		return
	}
	l.text(field, s)
}

func (l *leaf) int(n int64) {
	l.buf = append(l.buf, 9)
	l.buf = binary.BigEndian.AppendUint64(l.buf, uint64(n))
}

// small is an integer column of at most 32 bits, tiny one of at most 16.
func (l *leaf) small(field string, n int) {
	if int(int32(n)) != n {
		l.fail(field, "is out of range")
	}
	l.int(int64(n))
}

func (l *leaf) tiny(field string, n int) {
	if int(int16(n)) != n {
		l.fail(field, "is out of range")
	}
	l.int(int64(n))
}

// positive is an integer column that is NULL when zero.
func (l *leaf) positive(n int64) {
	if n == 0 {
		l.null()
		return
	}
	l.int(n)
}

func (l *leaf) bool(b bool) {
	if b {
		l.buf = append(l.buf, 2, 1)
	} else {
		l.buf = append(l.buf, 2, 0)
	}
}

// time refuses what is more than a day away from the log's clock: such a row
// would have no partition to go to.
func (l *leaf) time(field string, t time.Time) {
	if !l.now.IsZero() && t.Sub(l.now).Abs() > 24*time.Hour {
		l.fail(field, "is more than a day away from now")
	}
	l.int(t.UnixMicro())
}

func (l *leaf) uuid(field, s string) {
	id, ok := parseUUID(s)
	if !ok {
		l.fail(field, "is not a UUID in canonical form")
	}
	l.bytes(id[:])
}

func (l *leaf) maybeUUID(field, s string) {
	if s == "" {
		l.null()
		return
	}
	l.uuid(field, s)
}

func (l *leaf) digest(d Digest) { l.bytes(d[:]) }

func (l *leaf) maybeDigest(d Digest) {
	if d == (Digest{}) {
		l.null()
		return
	}
	l.bytes(d[:])
}

// list writes a column whose value is what each writes.
func (l *leaf) list(each func(*leaf)) {
	in := leaf{err: l.err}
	each(&in)
	l.bytes(in.buf)
	l.err = in.err
}

func (l *leaf) labels(field string, m map[string]string) {
	l.list(func(l *leaf) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			l.text(field, k)
			l.text(field, m[k])
		}
	})
}

func (l *leaf) batch(b *Batch) Digest {
	l.begin("batches")
	l.time("accepted_at", b.AcceptedAt)
	l.uuid("batch_id", string(b.ID))
	l.need("team_id", b.Tenant)
	l.text("request_id", b.RequestID)
	l.digest(b.RequestDigest)
	l.maybe("session_id", string(b.Session))
	l.maybe("workspace_id", b.Workspace)
	l.need("principal", b.Principal)
	l.maybe("on_behalf_of", b.OnBehalfOf)
	l.maybe("agent_id", b.AgentID)
	l.maybe("agent_version", b.AgentVersion)
	l.maybe("model", b.Model)
	l.maybe("conversation_id", b.ConversationID)
	l.need("schedule_mode", b.ScheduleMode)
	l.small("call_count", b.CallCount)
	l.positive(b.ContextRemaining)
	l.labels("labels", b.Labels)
	l.maybe("peer_addr", b.PeerAddr)
	l.maybe("user_agent", b.UserAgent)
	l.maybe("trace_id", b.TraceID)
	l.need("replica_id", b.Replica)
	l.text("policy_version", b.PolicyVersion)
	l.text("catalog_revision", b.CatalogRevision)
	return l.sum()
}

func (l *leaf) decision(d *Decision) Digest {
	l.begin("permission_decisions")
	l.time("decided_at", d.DecidedAt)
	l.uuid("decision_id", d.ID)
	l.need("team_id", d.Tenant)
	l.uuid("batch_id", string(d.Batch))
	l.need("call_id", string(d.Call))
	l.tiny("decision_no", d.No)
	l.need("tool", d.Tool)
	l.text("side_effect", d.Class.String())
	l.need("verdict", d.Verdict)
	l.text("reason", d.Reason)
	l.text("reason_code", d.ReasonCode)
	l.need("policy_id", d.PolicyID)
	l.text("policy_version", d.PolicyVersion)
	l.list(func(l *leaf) {
		for _, m := range d.Matched {
			l.text("matched_policy_ids", m)
		}
	})
	l.need("stage", d.Stage)
	l.digest(d.ArgsDigest)
	l.maybeUUID("approval_id", d.ApprovalID)
	l.need("decided_by", d.DecidedBy)
	l.callFacts(d)
	l.need("principal", d.Principal)
	l.maybe("on_behalf_of", d.OnBehalfOf)
	l.maybe("session_id", string(d.Session))
	l.int(d.SessionEpoch)
	l.small("eval_us", int(d.EvalMicros))
	return l.sum()
}

func (l *leaf) callFacts(d *Decision) {
	f := d.First
	if (f != nil) != (d.No == 1) {
		l.fail("decision_no", "is 1 exactly where the call's facts are given")
	}
	if f == nil {
		for range 8 {
			l.null()
		}
		return
	}
	l.small("call_index", f.Index)
	l.maybe("tool_version", f.ToolVersion)
	l.maybe("tier", f.Tier)
	l.text("declared_side_effect", f.DeclaredClass.String())
	l.text("idempotency", f.Idempotency.String())
	l.list(func(l *leaf) {
		for _, e := range f.Effects {
			l.text("effects", string(e.Verb))
			l.text("effects", e.Target)
		}
	})
	l.text("args_masked", f.ArgsMasked)
	l.maybe("rationale", f.Rationale)
}

func (l *leaf) start(s *StartRow) Digest {
	l.begin("call_starts")
	l.time("started_at", s.StartedAt)
	l.uuid("batch_id", string(s.Batch))
	l.need("call_id", string(s.Call))
	l.tiny("attempt", s.Attempt)
	l.need("team_id", s.Tenant)
	l.uuid("decision_id", s.Decision)
	l.digest(s.Args)
	l.need("executor", s.Executor)
	l.need("replica_id", s.Replica)
	l.maybe("workspace_id", s.Workspace)
	return l.sum()
}

func (l *leaf) outcome(o *Outcome) Digest {
	l.begin("outcomes")
	l.time("finished_at", o.FinishedAt)
	l.uuid("batch_id", string(o.Batch))
	l.need("call_id", string(o.Call))
	l.tiny("attempt", o.Attempt)
	l.need("team_id", o.Tenant)
	l.need("tool", o.Tool)
	l.text("tier", o.Tier)
	l.text("side_effect", o.Class.String())
	l.text("outcome", o.Outcome.String())
	l.maybe("error_reason", o.ErrorReason)
	l.maybe("error_domain", o.ErrorDomain)
	if o.ExitCode == nil {
		l.null()
	} else {
		l.small("exit_code", *o.ExitCode)
	}
	l.maybe("exit_signal", o.ExitSignal)
	l.int(o.Queue.Milliseconds())
	l.int(o.Approval.Milliseconds())
	l.int(o.Run.Milliseconds())
	l.maybe("output_kind", o.OutputKind)
	l.int(o.OutputBytes)
	l.maybeDigest(o.OutputSHA256)
	l.int(o.OutputTokens)
	l.int(o.KeptTokens)
	l.bool(o.Truncated)
	l.list(func(l *leaf) {
		for _, id := range o.ArtifactIDs {
			l.uuid("artifact_ids", id)
		}
	})
	l.maybe("recovered_by", o.RecoveredBy)
	return l.sum()
}

func (l *leaf) artifact(a *ArtifactEvent) Digest {
	l.begin("artifact_events")
	l.time("at", a.At)
	l.uuid("event_id", a.EventID)
	l.uuid("artifact_id", a.Artifact)
	l.need("team_id", a.Tenant)
	l.maybeUUID("batch_id", string(a.Batch))
	l.maybe("call_id", string(a.Call))
	l.need("event", a.Event)
	l.need("actor", a.Actor)
	l.maybe("name", a.Name)
	l.int(a.Size)
	l.maybeDigest(a.SHA256)
	l.maybe("media_type", a.MediaType)
	return l.sum()
}

func (l *leaf) admin(a *AdminEvent) Digest {
	l.begin("admin_events")
	l.time("at", a.At)
	l.uuid("event_id", a.EventID)
	l.text("team_id", a.Tenant)
	l.need("actor", a.Actor)
	l.need("event", a.Event)
	l.text("subject", a.Subject)
	l.maybe("before", a.Before)
	l.maybe("after", a.After)
	l.maybe("reason", a.Reason)
	return l.sum()
}

// parseUUID reads the canonical text form, lower case, 36 bytes.
func parseUUID(s string) (id [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	var hexed [32]byte
	n := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '-':
		case n < 32 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'f'):
			hexed[n] = c
			n++
		default:
			return id, false
		}
	}
	if n != 32 {
		return id, false
	}
	_, err := hex.Decode(id[:], hexed[:])
	return id, err == nil
}
