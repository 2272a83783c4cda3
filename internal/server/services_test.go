package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/tool"
	pb "github.com/toold/toold/proto/toold/v1"
)

// cutOff runs blob and gives the artifact that has all of it.
func (w *world) cutOff() *pb.ArtifactRef {
	w.t.Helper()
	all := w.run(&pb.BatchSpec{}, "blob")
	ref := resultsOf(all)[0].GetOutput().GetTruncated().GetFull()
	if ref == nil {
		w.t.Fatalf("the result was not cut: %v", resultsOf(all)[0])
	}
	return ref
}

// download reads an artifact to its end.
func download(ctx context.Context, c pb.ArtifactServiceClient, in *pb.ReadArtifactRequest) (*pb.Artifact, []byte, error) {
	stream, err := c.ReadArtifact(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	var header *pb.Artifact
	var out []byte
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return header, out, nil
		}
		if err != nil {
			return header, out, err
		}
		if h := r.GetHeader(); h != nil {
			header = h
		}
		out = append(out, r.GetChunk().GetData()...)
	}
}

func TestWhatWasCutIsReadBackWhole(t *testing.T) {
	w := newWorld(t, nil)
	ref := w.cutOff()
	c := pb.NewArtifactServiceClient(w.conn)
	want := bytes.Repeat([]byte(blobLine), blobLines)
	header, got, err := download(t.Context(), c, &pb.ReadArtifactRequest{Uri: ref.GetUri()})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(got)
	if !bytes.Equal(got, want) || hex.EncodeToString(sum[:]) != header.GetRef().GetSha256() || header.GetRef().GetSizeBytes() != blobBytes {
		t.Errorf("%d bytes of %d; header %v", len(got), len(want), header)
	}
	line := int64(len(blobLine))
	for name, test := range map[string]struct {
		in   *pb.ReadArtifactRequest
		want []byte
	}{
		"from the middle": {&pb.ReadArtifactRequest{Range: &pb.ReadArtifactRequest_Bytes{Bytes: &pb.ByteRange{Offset: 5, Length: 7}}}, want[5:12]},
		"the end":         {&pb.ReadArtifactRequest{Range: &pb.ReadArtifactRequest_Bytes{Bytes: &pb.ByteRange{Offset: -10}}}, want[len(want)-10:]},
		"nothing left":    {&pb.ReadArtifactRequest{Range: &pb.ReadArtifactRequest_Bytes{Bytes: &pb.ByteRange{Offset: blobBytes}}}, nil},
		"two lines":       {&pb.ReadArtifactRequest{Range: &pb.ReadArtifactRequest_Lines{Lines: &pb.LineRange{First: 3, Count: 2}}}, want[2*line : 4*line]},
		"small chunks":    {&pb.ReadArtifactRequest{ChunkBytes: 7, Range: &pb.ReadArtifactRequest_Bytes{Bytes: &pb.ByteRange{Length: 100}}}, want[:100]},
	} {
		test.in.Uri = ref.GetUri()
		if _, got, err := download(t.Context(), c, test.in); err != nil || !bytes.Equal(got, test.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
		}
	}
	for name, test := range map[string]struct {
		in     *pb.ReadArtifactRequest
		code   codes.Code
		reason string
	}{
		"past the end": {&pb.ReadArtifactRequest{Uri: ref.GetUri(), Range: &pb.ReadArtifactRequest_Bytes{Bytes: &pb.ByteRange{Offset: blobBytes + 1}}}, codes.OutOfRange, "RANGE_BEYOND_END"},
		"no such line": {&pb.ReadArtifactRequest{Uri: ref.GetUri(), Range: &pb.ReadArtifactRequest_Lines{Lines: &pb.LineRange{First: blobLines + 2}}}, codes.OutOfRange, "RANGE_BEYOND_END"},
		"line 0":       {&pb.ReadArtifactRequest{Uri: ref.GetUri(), Range: &pb.ReadArtifactRequest_Lines{Lines: &pb.LineRange{}}}, codes.InvalidArgument, "REQUEST_MALFORMED"},
		"another id":   {&pb.ReadArtifactRequest{Uri: "toold://artifacts/" + newID()}, codes.NotFound, "ARTIFACT_GONE"},
		"no id":        {&pb.ReadArtifactRequest{Uri: "toold://artifacts/../../etc/passwd"}, codes.InvalidArgument, "REQUEST_MALFORMED"},
		"a file":       {&pb.ReadArtifactRequest{Uri: "file:///etc/passwd"}, codes.InvalidArgument, "REQUEST_MALFORMED"},
	} {
		_, _, err := download(t.Context(), c, test.in)
		if got := read(t, err); got.Code != test.code || got.Reason != test.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALiveArtifactIsFollowedToItsEnd(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Heartbeat = 5 * time.Millisecond })
	id := newID()
	capture := w.Artifacts.NewCapture(artifact.CaptureOptions{ID: id, Tenant: "default"})
	defer capture.Close()
	write := func(text string) {
		t.Helper()
		if _, err := capture.Write(tool.Stdout, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	c := pb.NewArtifactServiceClient(w.conn)
	uri := artifact.URI(id)
	header, now, err := download(t.Context(), c, &pb.ReadArtifactRequest{Uri: uri})
	if err != nil || !header.GetLive() || string(now) != "one\n" {
		t.Errorf("what there is so far: %q, %v, %v", now, header, err)
	}
	stream, err := c.ReadArtifact(t.Context(), &pb.ReadArtifactRequest{Uri: uri, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	idle := 0
	for idle < 2 { // two empty chunks: nothing new, still alive
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r.GetChunk() != nil && len(r.GetChunk().GetData()) == 0 {
			idle++
		}
		got = append(got, r.GetChunk().GetData()...)
	}
	more := strings.Repeat("two\n", 100<<10)
	write(more)
	if _, err := capture.Finish(); err != nil {
		t.Fatal(err)
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.GetChunk().GetData()...)
	}
	if string(got) != "one\n"+more {
		t.Errorf("%d bytes of %d", len(got), len("one\n"+more))
	}
}

func TestAnotherTenantsLiveArtifactIsNotThere(t *testing.T) {
	w := newWorld(t, nil)
	id := newID()
	capture := w.Artifacts.NewCapture(artifact.CaptureOptions{ID: id, Tenant: "others"})
	defer capture.Close()
	_, err := pb.NewArtifactServiceClient(w.conn).GetArtifact(t.Context(), &pb.GetArtifactRequest{Uri: artifact.URI(id)})
	if got := read(t, err); got.Code != codes.NotFound || got.Reason != "ARTIFACT_GONE" {
		t.Errorf("got %+v", got)
	}
}

func TestArtifactsOfABatchAreListed(t *testing.T) {
	w := newWorld(t, nil)
	all := w.run(&pb.BatchSpec{}, "blob", "blob")
	c := pb.NewArtifactServiceClient(w.conn)
	in := &pb.ListArtifactsRequest{BatchId: all[0].GetBatchId(), PageSize: 1}
	calls := map[string]bool{}
	for {
		page, err := c.ListArtifacts(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.GetArtifacts() {
			calls[a.GetCallId()] = true
			got, err := c.GetArtifact(t.Context(), &pb.GetArtifactRequest{Uri: a.GetRef().GetUri()})
			if err != nil || got.GetArtifact().GetRef().GetSizeBytes() != blobBytes || got.GetArtifact().GetBatchId() != all[0].GetBatchId() {
				t.Errorf("artifact: %v, %v", got, err)
			}
		}
		if in.PageToken = page.GetNextPageToken(); in.GetPageToken() == "" {
			break
		}
	}
	if diff := cmp.Diff(map[string]bool{"0": true, "1": true}, calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestToolsAreListedByName(t *testing.T) {
	w := newWorld(t, nil, newProbe("change", tool.Write, say("")))
	c := pb.NewCatalogServiceClient(w.conn)
	in := &pb.ListToolsRequest{PageSize: 2}
	var names []string
	for {
		page, err := c.ListTools(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.GetTools() {
			names = append(names, d.GetName())
			if d.GetDescription() != "" || d.GetInputSchemaJson() != "" {
				t.Error("the basic view has more than it says")
			}
		}
		if in.PageToken = page.GetNextPageToken(); in.GetPageToken() == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"blob", "change", "say"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, in := range map[string]*pb.ListToolsRequest{"cold": {Tier: pb.ToolTier_TOOL_TIER_COLD}, "another category": {Category: "x"}} {
		if got, err := c.ListTools(t.Context(), in); err != nil || len(got.GetTools()) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	got, err := c.GetTool(t.Context(), &pb.GetToolRequest{Name: "change"})
	if d := got.GetTool(); err != nil || d.GetSideEffect() != pb.SideEffect_SIDE_EFFECT_WRITE || d.GetInputSchemaJson() == "" || d.GetSchemaTokens() == 0 {
		t.Errorf("%v, %v", d, err)
	}
	_, err = c.GetTool(t.Context(), &pb.GetToolRequest{Name: "chang"})
	if got := read(t, err); got.Reason != "TOOL_NOT_FOUND" || got.Metadata["nearest"] != "change" || got.Resource != "toold.v1/tool chang" {
		t.Errorf("a near name: %+v", got)
	}
	_, err = c.GetTool(t.Context(), &pb.GetToolRequest{Name: "say", Version: "9.0.0"})
	if got := read(t, err); got.Reason != "TOOL_VERSION_MISMATCH" || got.Metadata["version"] != "1.0.0" {
		t.Errorf("another version: %+v", got)
	}
}

func TestPlanModeHoldsForASession(t *testing.T) {
	w := newWorld(t, nil, newProbe("change", tool.Write, say("changed")))
	c := pb.NewSessionServiceClient(w.conn)
	ctx := t.Context()
	made, err := c.CreateSession(ctx, &pb.CreateSessionRequest{RequestId: "s-1", Mode: pb.SessionMode_SESSION_MODE_PLAN})
	if err != nil {
		t.Fatal(err)
	}
	id := made.GetSession().GetSessionId()
	again, err := c.CreateSession(ctx, &pb.CreateSessionRequest{RequestId: "s-1", Mode: pb.SessionMode_SESSION_MODE_PLAN})
	if err != nil || again.GetSession().GetSessionId() != id {
		t.Errorf("the same request made %v, %v", again, err)
	}
	planned := resultsOf(w.run(&pb.BatchSpec{SessionId: id}, "change"))[0]
	if planned.GetOutcome() != pb.ToolOutcome_TOOL_OUTCOME_DENIED || planned.GetError().GetReason() != "PLAN_MODE" {
		t.Errorf("in plan mode: %v", planned)
	}
	_, err = c.SetSessionMode(ctx, &pb.SetSessionModeRequest{SessionId: id, Mode: pb.SessionMode_SESSION_MODE_NORMAL, ExpectedEpoch: 9})
	if got := read(t, err); got.Code != codes.Aborted || got.Reason != "EPOCH_CHANGED" || got.Metadata["epoch"] != "1" {
		t.Errorf("an old epoch: %+v", got)
	}
	if _, err := c.SetSessionMode(ctx, &pb.SetSessionModeRequest{SessionId: id}); read(t, err).Reason != "REQUEST_MALFORMED" {
		t.Errorf("no mode: %v", err)
	}
	set, err := c.SetSessionMode(ctx, &pb.SetSessionModeRequest{SessionId: id, Mode: pb.SessionMode_SESSION_MODE_NORMAL, ExpectedEpoch: 1})
	if err != nil || set.GetSession().GetEpoch() != 2 {
		t.Errorf("set: %v, %v", set, err)
	}
	if got := resultsOf(w.run(&pb.BatchSpec{SessionId: id}, "change"))[0]; got.GetOutcome() != pb.ToolOutcome_TOOL_OUTCOME_SUCCEEDED {
		t.Errorf("in normal mode: %v", got)
	}
	listed, err := c.ListSessions(ctx, &pb.ListSessionsRequest{})
	if err != nil || len(listed.GetSessions()) != 1 || listed.GetSessions()[0].GetSessionId() != id {
		t.Errorf("list: %v, %v", listed, err)
	}
	for range 2 {
		if _, err := c.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: id}); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if listed, err := c.ListSessions(ctx, &pb.ListSessionsRequest{}); err != nil || len(listed.GetSessions()) != 0 {
		t.Errorf("list after close: %v, %v", listed, err)
	}
	_, err = w.try(&pb.BatchSpec{SessionId: id}, "say")
	if got := read(t, err); got.Code != codes.FailedPrecondition || got.Reason != "SESSION_CLOSED" || got.Metadata["accepted"] != "false" {
		t.Errorf("a batch in a closed session: %+v", got)
	}
	if _, err := c.GetSession(ctx, &pb.GetSessionRequest{SessionId: "nobody's"}); read(t, err).Reason != "SESSION_NOT_FOUND" {
		t.Errorf("an unknown session: %v", err)
	}
}

func TestDecisionsAreListedNewestFirst(t *testing.T) {
	w := newWorld(t, nil)
	all := w.run(&pb.BatchSpec{}, "say", "nobody", "blob")
	c := pb.NewAuditServiceClient(w.conn)
	in := &pb.ListDecisionsRequest{PageSize: 2}
	var tools []string
	for {
		page, err := c.ListDecisions(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.GetDecisions() {
			tools = append(tools, d.GetTool())
			if d.GetBatchId() != all[0].GetBatchId() || d.GetPrincipal().GetId() != "local" || len(d.GetDecision().GetArgumentsDigest()) != 64 {
				t.Errorf("decision: %v", d)
			}
		}
		if in.PageToken = page.GetNextPageToken(); in.GetPageToken() == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"blob", "nobody", "say"}, tools); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	denied, err := c.ListDecisions(t.Context(), &pb.ListDecisionsRequest{Verdict: pb.Verdict_VERDICT_DENY})
	if err != nil || len(denied.GetDecisions()) != 1 || denied.GetDecisions()[0].GetDecision().GetStage() != pb.DecisionStage_DECISION_STAGE_INVALID {
		t.Errorf("denied: %v, %v", denied, err)
	}
}

func TestServerInfoTellsTheLimits(t *testing.T) {
	w := newWorld(t, nil)
	got, err := pb.NewAdminServiceClient(w.conn).GetServerInfo(t.Context(), &pb.GetServerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetVersion() != "1.2.3" || got.GetStore() != "sqlite" || got.GetIsolation() != "none" || got.GetCatalogRevision() != w.Registry.Revision() {
		t.Errorf("%v", got)
	}
	if l := got.GetLimits(); l.GetMaxCallsPerBatch() != 256 || l.GetMaxRequestBytes() != 16<<20 || l.GetMaxBytesPerCall() == 0 || l.GetMaxCallTimeout().AsDuration() == 0 {
		t.Errorf("%v", l)
	}
}
