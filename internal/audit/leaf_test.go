package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/tool"
)

var at = time.Date(2026, 12, 1, 10, 0, 0, 123_456_789, time.FixedZone("", 3600))

const (
	idA = "01939f5e-7a00-7000-8000-00000000000a"
	idB = "01939f5e-7a00-7000-8000-00000000000b"
)

// golden are rows and their leaves. A change here breaks the verification of
// every ledger that exists: raise leafVersion instead.
func TestLeavesAreForEver(t *testing.T) {
	code := 2
	var l leaf
	for _, c := range []struct {
		name string
		sum  Digest
		want string
	}{
		{"batch", l.batch(&Batch{AcceptedAt: at, ID: idA, Tenant: "t", RequestID: "r", Principal: "p", ScheduleMode: "SERIAL", CallCount: 2, Labels: map[string]string{"b": "2", "a": "1"}, PeerAddr: "::1", Replica: "r1", PolicyVersion: "v", CatalogRevision: "c"}), "75a552ca31e1378ed32ef321e1e59e8cf0bf8e3d7fece8517b56110fcb55af20"},
		{"decision", l.decision(&Decision{DecidedAt: at, ID: idB, Tenant: "t", Batch: idA, Call: "0", No: 1, Tool: "read", Class: tool.ReadOnly, Verdict: "ALLOW", PolicyID: "p", Matched: []string{"x", ""}, Stage: "RULE", DecidedBy: "policy", Principal: "a", First: &CallFacts{DeclaredClass: tool.Write, Effects: []tool.Effect{{Verb: "read", Target: "ws:/a"}}, ArgsMasked: "{}"}}), "9d264c9aa6a2faaef07ff2268c94eb50bafa60ac3a253fdd4c2a890c40eab983"},
		{"second decision", l.decision(&Decision{DecidedAt: at, ID: idB, Tenant: "t", Batch: idA, Call: "0", No: 2, Tool: "read", Class: tool.ReadOnly, Verdict: "DENY", Reason: "no", PolicyID: "p", Stage: "APPROVAL", ApprovalID: idA, DecidedBy: "anna", Principal: "a"}), "15cc778838791d723c31cee997a4c5318d3845fe4fd3a65d37aa4a2f0c789623"},
		{"start", l.start(&StartRow{Start: Start{StartedAt: at, Attempt: 1, Executor: "builtin", Workspace: "w", Decision: idB}, Batch: idA, Call: "0", Tenant: "t", Replica: "r1"}), "067f5824d7f887ee864de558a6c04559cc63836b1f65dd9b63b7d01dc5e92ec6"},
		{"outcome", l.outcome(&Outcome{FinishedAt: at, Batch: idA, Call: "0", Attempt: 1, Tenant: "t", Tool: "bash", Tier: "HOT", Class: tool.SystemChange, Outcome: tool.Failed, ExitCode: &code, Run: 1500 * time.Microsecond, Truncated: true, ArtifactIDs: []string{idB}}), "3cedf829067ee0fcc1f80ae4a0e64624ea489e481d702ff5d5cc16d2db2dcf5a"},
		{"artifact", l.artifact(&ArtifactEvent{At: at, EventID: idA, Artifact: idB, Tenant: "t", Event: "CREATED", Actor: "a", Size: 5}), "9a25e5b883bdd70b6ef4436e4a93f1335fc054039b890d8cef7010560b55b276"},
		{"admin", l.admin(&AdminEvent{At: at, EventID: idA, Actor: "a", Event: "E", After: `{"x": 1}`}), "f4337b2f23086ad19c9003af9e8295f9bfa79130eaa0aac6f35c2ec8af90b9fd"},
		{"block", BlockHash(Digest{1}, "r1/x", 7, 3, Digest{2}), "a07e502221394580ab51bea05f574a2786113876f74864de09633cc40cfc293d"},
	} {
		if got := hex.EncodeToString(c.sum[:]); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if l.err != nil {
		t.Error(l.err)
	}
}

// reference is the tree as RFC 6962 defines it, by recursion.
func reference(leaves []Digest) Digest {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		l, r := reference(leaves[:k]), reference(leaves[k:])
		return sha256.Sum256(bytes.Join([][]byte{{1}, l[:], r[:]}, nil))
	}
}

func TestRootIsThatOfRFC6962(t *testing.T) {
	for n := range 70 {
		leaves := make([]Digest, n)
		for i := range leaves {
			leaves[i] = sha256.Sum256(fmt.Append(nil, i))
		}
		want := reference(leaves)
		if got := Root(leaves); got != want {
			t.Errorf("%d leaves: %x, want %x", n, got, want)
		}
	}
}

func TestEveryColumnIsHashed(t *testing.T) {
	base := func() *AdminEvent {
		return &AdminEvent{At: at, EventID: idA, Tenant: "t", Actor: "a", Event: "E", Subject: "s", Before: "1", After: "2", Reason: "r"}
	}
	var l leaf
	seen := map[Digest]string{l.admin(base()): "unchanged"}
	for name, edit := range map[string]func(*AdminEvent){
		"at": func(e *AdminEvent) { e.At = at.Add(time.Microsecond) }, "id": func(e *AdminEvent) { e.EventID = idB },
		"tenant": func(e *AdminEvent) { e.Tenant = "u" }, "actor": func(e *AdminEvent) { e.Actor = "b" },
		"moved": func(e *AdminEvent) { e.Actor, e.Event = "aE", "" }, "empty": func(e *AdminEvent) { e.Before = "" },
		"swapped": func(e *AdminEvent) { e.Before, e.After = "2", "1" }, "reason": func(e *AdminEvent) { e.Reason = "R" },
	} {
		e := base()
		edit(e)
		sum := l.admin(e)
		if was, ok := seen[sum]; ok {
			t.Errorf("%s has the hash of %s", name, was)
		}
		seen[sum] = name
	}
	e := base()
	e.At = at.Add(100 * time.Nanosecond).UTC()
	if seen[l.admin(e)] != "unchanged" {
		t.Error("what no store keeps, a zone and nanoseconds, must not be hashed")
	}
}

func TestParseUUID(t *testing.T) {
	for s, want := range map[string]bool{
		idA: true, "": false, "01939F5E-7A00-7000-8000-00000000000A": false, idA + "0": false, "{" + idA[1:]: false,
		"01939f5e7a00-7000-8000-00000000000a0": false, "01939f5e-7a00-7000-8000-00000000000g": false, "------------------------------------": false,
	} {
		if _, ok := parseUUID(s); ok != want {
			t.Errorf("%q: %v", s, ok)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	var n numbering
	n.add(&Event{Wire: []byte("hello")})
	n.add(&Event{Wire: nil})
	f.Add(n.row.Bytes)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		size := 0
		for _, e := range (EventRow{First: 1, Bytes: b}).Unpack(nil) {
			size += len(e.Wire) + 1
		}
		if size > len(b) {
			t.Errorf("%d bytes out of %d", size, len(b))
		}
	})
}

func TestEventsComeBackNumbered(t *testing.T) {
	n := numbering{last: 126}
	n.add(&Event{Wire: []byte("a")})
	n.add(&Event{Wire: []byte("b"), Stored: []byte("short")})
	if diff := cmp.Diff([]Numbered{{127, []byte("a\x10\x7f")}, {128, []byte("b\x10\x80\x01")}}, n.new); diff != "" {
		t.Error(diff)
	}
	got := EventRow{First: 127, Bytes: n.row.Bytes}.Unpack(nil)
	if diff := cmp.Diff([]Numbered{{127, []byte("a\x10\x7f")}, {128, []byte("short\x10\x80\x01")}}, got); diff != "" {
		t.Error(diff)
	}
}
