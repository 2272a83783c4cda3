package exec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/toold/toold/internal/artifact"
	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/tool"
)

// runtime is what one running call may use (tool.Runtime), and what it left
// behind.
type runtime struct {
	b  *Batch
	c  *call
	id string // of the artifact that the output may become

	mu      sync.Mutex
	capture *artifact.Capture // nil until something is written
	kept    []audit.ArtifactEvent
	over    bool // the call has ended: a tool that did not stop can do nothing more
}

func newRuntime(b *Batch, c *call) (*runtime, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("making an artifact id: %w", err)
	}
	return &runtime{b: b, c: c, id: id.String()}, nil
}

var errOver = errors.New("the call has ended")

// maxChunk is the most that one chunk event carries.
const maxChunk = 32 << 10

// Write implements tool.Runtime.
func (r *runtime) Write(ch tool.Channel, p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errOver
	}
	if r.capture == nil {
		r.capture = r.b.x.Artifacts.NewCapture(artifact.CaptureOptions{
			ID: r.id, Tenant: r.b.caller.Tenant,
			MediaType: "text/plain", Max: r.b.x.Limits.CaptureBytes, Tokenizer: r.b.share.Tokenizer,
		})
	}
	offset, err := r.capture.Write(ch, p)
	if err != nil {
		return err
	}
	for len(p) > 0 {
		n := min(len(p), maxChunk)
		r.b.publish(r.c, Chunk{Channel: ch, Offset: offset, Data: p[:n]})
		offset, p = offset+int64(n), p[n:]
	}
	return nil
}

// Progress implements tool.Runtime.
func (r *runtime) Progress(done, total float64, message string) {
	r.b.publish(r.c, Progress{Done: done, Total: total, Message: strings.ToValidUTF8(message, "\uFFFD")})
}

// Keep implements tool.Runtime.
func (r *runtime) Keep(ctx context.Context, name, mediaType string, body []byte) (tool.ArtifactRef, error) {
	blob, err := r.b.x.Artifacts.Put(ctx, body)
	if err != nil {
		return tool.ArtifactRef{}, fmt.Errorf("keeping %s: %w", name, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return tool.ArtifactRef{}, fmt.Errorf("making an artifact id: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return tool.ArtifactRef{}, errOver
	}
	return r.note(id.String(), name, mediaType, blob), nil
}

// note records that an artifact was made. r.mu is held.
func (r *runtime) note(id, name, mediaType string, blob artifact.Blob) tool.ArtifactRef {
	var sum audit.Digest
	_, _ = hex.Decode(sum[:], []byte(blob.SHA256))
	r.kept = append(r.kept, audit.ArtifactEvent{
		At: cut(r.b.x.Now()), Artifact: id, Tenant: r.b.caller.Tenant, Batch: r.b.id, Call: r.c.id,
		Event: "CREATED", Actor: r.b.caller.Principal.ID, Name: name, Size: blob.Size, SHA256: sum, MediaType: mediaType,
	})
	return tool.ArtifactRef{URI: artifact.URI(id), Size: blob.Size, SHA256: blob.SHA256, MediaType: mediaType}
}

// discard drops what a call wrote that is left to another owner.
func (r *runtime) discard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.capture != nil {
		r.capture.Close()
	}
}

// fit ends the runtime and turns what the call put out into what its reader
// gets: whole where it fits its share, else cut, with the whole in an artifact.
func (r *runtime) fit(f *Finished, res tool.Result, facts *outcomeFacts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		r.over = true
		if r.capture != nil {
			r.capture.Close()
		}
		facts.artifacts = r.kept
	}()
	s := r.b.share
	own := r.c.spec.Cut
	if s.Cut != nil {
		own = *s.Cut
	}
	uri := artifact.URI(r.id)
	switch out := res.Output.(type) {
	case tool.Text:
		f.Usage.OutputBytes = int64(len(out.Text))
		fitted := budget.FitText(out.Text, s, own, uri)
		if t, ok := fitted.Output.(tool.Text); ok {
			t.MediaType, t.Lossy = out.MediaType, t.Lossy || out.Lossy
			fitted.Output = t
		}
		r.take(f, facts, fitted, int64(len(out.Text)), func() (*tool.ArtifactRef, error) {
			return r.put("output", orText(out.MediaType), []byte(out.Text))
		})
		r.digest(facts, []byte(out.Text))
	case tool.Structured:
		f.Usage.OutputBytes = int64(len(out.JSON))
		fitted := budget.FitStructured(out, s, uri)
		r.take(f, facts, fitted, 0, func() (*tool.ArtifactRef, error) { return r.put("output", "application/json", out.JSON) })
		r.digest(facts, out.JSON)
	case tool.Binary:
		r.fitBinary(f, facts, out)
	case tool.Truncated:
		f.Output = out
	case tool.Captured, nil:
		if r.capture != nil {
			r.fitCapture(f, facts, own, uri)
		} else if out != nil {
			f.Output = tool.Text{}
		}
	}
}

// digest says what the whole output was; where it was kept, that has been
// worked out already.
func (r *runtime) digest(facts *outcomeFacts, whole []byte) {
	for _, a := range r.kept {
		if a.Artifact == r.id {
			facts.outputSHA256 = a.SHA256
			return
		}
	}
	facts.outputSHA256 = sha256.Sum256(whole)
}

func orText(mediaType string) string {
	if mediaType == "" {
		return "text/plain"
	}
	return mediaType
}

func (r *runtime) put(name, mediaType string, body []byte) (*tool.ArtifactRef, error) {
	blob, err := r.b.x.Artifacts.Put(context.Background(), body)
	if err != nil {
		return nil, err
	}
	ref := r.note(r.id, name, mediaType, blob)
	return &ref, nil
}

// take puts a fitted output into the result. keep makes the artifact of the
// whole; it is called where something was cut or altered, or the body (size
// bytes) is too large to stay in the store.
func (r *runtime) take(f *Finished, facts *outcomeFacts, fitted budget.Fitted, size int64, keep func() (*tool.ArtifactRef, error)) {
	var ref *tool.ArtifactRef
	if fitted.Truncated || fitted.Lossy || size > r.b.x.Limits.StoredBytes {
		var err error
		if ref, err = keep(); err != nil {
			r.b.x.Logger.Error("output could not be kept", "batch_id", r.b.id, "call_id", r.c.id, "error", err)
			fitted.Hints = append(fitted.Hints, tool.Hint{
				Level: tool.Warning, Code: "ARTIFACT_NOT_KEPT",
				Message: "the whole output could not be stored; only what is shown here remains", Suggestion: "free disk space in toold's data folder",
			})
		}
	}
	switch out := fitted.Output.(type) {
	case tool.Text:
		out.Artifact = ref
		f.Output = out
	case tool.Truncated:
		out.Full = ref
		f.Output = out
	case tool.Binary:
		out.Artifact = ref
		f.Output = out
	case tool.Structured, tool.Captured:
		f.Output = out
	}
	f.Hints = append(f.Hints, fitted.Hints...)
	f.Usage.OutputTokens, facts.keptTokens = int64(fitted.OriginalTokens), int64(fitted.KeptTokens)
	for k, v := range fitted.Metadata {
		if f.Metadata == nil {
			f.Metadata = make(map[string]string)
		}
		f.Metadata[k] = v
	}
}

// fitBinary keeps binary inline up to the inline limit and its share, else as an
// artifact.
func (r *runtime) fitBinary(f *Finished, facts *outcomeFacts, out tool.Binary) {
	sum := sha256.Sum256(out.Data)
	facts.outputSHA256 = sum
	out.Size, out.SHA256 = int64(len(out.Data)), hex.EncodeToString(sum[:])
	f.Usage.OutputBytes = out.Size
	whole := out.Data
	fitted := budget.FitBinary(out, r.b.share)
	if b, ok := fitted.Output.(tool.Binary); ok && out.Size > r.b.x.Limits.InlineBytes {
		b.Data = nil
		fitted.Output, fitted.Lossy = b, true // the bytes are in the artifact only
	}
	r.take(f, facts, fitted, out.Size, func() (*tool.ArtifactRef, error) { return r.put("output", out.MediaType, whole) })
}

// fitCapture fits what was written while the call ran.
func (r *runtime) fitCapture(f *Finished, facts *outcomeFacts, own tool.Cut, uri string) {
	s, err := r.capture.Finish()
	if err != nil {
		r.b.x.Logger.Error("output was not captured whole", "batch_id", r.b.id, "call_id", r.c.id, "error", err)
		f.Hints = append(f.Hints, tool.Hint{Level: tool.Warning, Code: "OUTPUT_INCOMPLETE", Message: "the output could not be written to disk, so its end is missing"})
	}
	_, _ = hex.Decode(facts.outputSHA256[:], []byte(s.SHA256))
	f.Usage.OutputBytes = s.Size
	fitted := budget.FitCapture(s.Head, s.Tail, s.Size, s.Tokens, r.b.share, own, uri)
	if t, ok := fitted.Output.(tool.Truncated); ok && s.Capped {
		t.Reason = tool.CutByCaptureLimit
		fitted.Output = t
		fitted.Metadata[budget.MetaReason] = t.Reason.String()
	}
	r.take(f, facts, fitted, s.Size, func() (*tool.ArtifactRef, error) {
		kept, err := r.capture.Keep(context.Background())
		if err != nil {
			return nil, err
		}
		ref := r.note(r.id, "output", "text/plain", kept.Output)
		if kept.Stderr != nil {
			if id, err := uuid.NewV7(); err == nil {
				stderr := r.note(id.String(), "stderr", "text/plain", *kept.Stderr)
				attachStderr(f, &stderr)
			}
		}
		return &ref, nil
	})
}

// attachStderr names the artifact of standard error beside the tail of it that
// the tool attached.
func attachStderr(f *Finished, ref *tool.ArtifactRef) {
	for i, a := range f.Attachments {
		if t, ok := a.(tool.Text); ok && t.Artifact == nil {
			t.Artifact = ref
			f.Attachments[i] = t
			return
		}
	}
}

// bodies reads artifacts of a tenant whole, for putting stored results together.
func (x *Executor) bodies(tenant string) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, uri string) ([]byte, error) {
		id, ok := artifact.ParseURI(uri)
		if !ok {
			return nil, fmt.Errorf("%q is not an artifact's address", uri)
		}
		rec, err := x.reader.Artifact(ctx, tenant, id)
		if err != nil {
			return nil, fmt.Errorf("finding artifact %s: %w", id, err)
		}
		r, err := x.Artifacts.Open(hex.EncodeToString(rec.SHA256[:]))
		if err != nil {
			return nil, fmt.Errorf("opening artifact %s: %w", id, err)
		}
		defer r.Close()
		body := make([]byte, r.Size())
		if _, err := io.ReadFull(io.NewSectionReader(r, 0, r.Size()), body); err != nil {
			return nil, fmt.Errorf("reading artifact %s: %w", id, err)
		}
		if sha256.Sum256(body) != rec.SHA256 {
			return nil, fmt.Errorf("artifact %s is not what was written", id)
		}
		return body, nil
	}
}
