// Package file holds the tools that read and change files of a workspace.
//
// A path goes through three hands: tool.Workspace.Resolve turns what the caller
// wrote into a place without links (Prepare declares it as the call's effect), a
// target checks when the call runs that it is still the same place, and a folder
// reaches it one name at a time without following a link. So a call can fail
// because somebody moved things about, but it never touches another file than
// the one that was declared, judged and recorded.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/toold/toold/internal/tool"
)

// Sizes that the tools of this package keep to, in bytes.
const (
	// MaxTextBytes bounds a file that is loaded whole: for write and edit, and
	// for the digest and the line count of read.
	MaxTextBytes = 64 << 20
	// MaxBinaryBytes bounds an image, a document or an archive that read gives.
	MaxBinaryBytes = 16 << 20
)

// Reasons that these tools give beside those of package tool.
const (
	ReasonNotAFile       = "NOT_A_REGULAR_FILE"
	ReasonNotAFolder     = "NOT_A_FOLDER"
	ReasonPermission     = "PERMISSION_DENIED"
	ReasonTooLarge       = "FILE_TOO_LARGE"
	ReasonBinary         = "BINARY_FILE"
	ReasonEncoding       = "ENCODING"
	ReasonRange          = "LINE_RANGE"
	ReasonStale          = "STALE_READ"
	ReasonTextNotFound   = "TEXT_NOT_FOUND"
	ReasonTextNotUnique  = "TEXT_NOT_UNIQUE"
	ReasonNoChange       = "NO_CHANGE"
	ReasonReadOnlyFile   = "FILE_IS_READ_ONLY"
	ReasonConflict       = "CONFLICT"
	ReasonPattern        = "PATTERN"
	ReasonNoWorkspace    = tool.ReasonNoWorkspace
	ReasonNoArtifacts    = "NO_ARTIFACTS"
	ReasonAllFilesFailed = "ALL_FILES_FAILED"
)

// Artifacts gives the bytes of outputs that are kept beside results.
type Artifacts interface {
	// Open opens the artifact with a uri ("toold://artifacts/{id}") for a
	// caller. It fails with fs.ErrNotExist for one that is not there or is
	// another tenant's. close is called once.
	Open(ctx context.Context, caller tool.Caller, uri string) (body io.ReaderAt, size int64, close func(), err error)
}

// Options is what the tools need from outside.
type Options struct {
	// Artifacts lets read and grep take toold://artifacts/ paths; nil: they
	// refuse them.
	Artifacts Artifacts
}

// Tools makes the file tools.
func Tools(o Options) []tool.Tool {
	return []tool.Tool{
		newRead(o), newWrite(), newEdit(), newGlob(), newGrep(o), newTree(), newBatchRead(),
	}
}

// target is the place that one path argument of a call means.
type target struct {
	ws      *tool.Workspace
	pointer string // of the argument
	name    string // as the caller wrote it
	path    tool.Path
}

func aim(env tool.Env, pointer, name string) (target, error) {
	if env.Workspace == nil {
		return target{}, tool.BadArgument(pointer, ReasonNoWorkspace,
			"there is no workspace to find files in; start toold with --workspace PATH or name one in the batch")
	}
	p, err := env.Workspace.Resolve(pointer, name)
	return target{ws: env.Workspace, pointer: pointer, name: name, path: p}, err
}

func (t target) effect(v tool.Verb) tool.Effect {
	return tool.Effect{Verb: v, Target: t.path.Target()}
}

// check fails when the argument no longer means the place that was declared.
func (t target) check() error {
	if t.name == string(t.path) {
		return nil // no link was followed, and none will be
	}
	now, err := t.ws.Resolve(t.pointer, t.name)
	if err == nil && now == t.path {
		return nil
	}
	return t.moved()
}

func (t target) moved() error {
	f := tool.Fail(tool.ReasonEffectChanged, "%s no longer leads to %s, which this call was allowed for; call again", t.name, t.path)
	f.Retryable = true
	return f
}

// fault says for the model what err means for t.
func (t target) fault(err error) error {
	var ae *tool.ArgumentError
	var failure *tool.Failure
	switch {
	case err == nil, errors.As(err, &ae), errors.As(err, &failure):
		return err
	case errors.Is(err, syscall.ELOOP):
		return t.moved()
	case errors.Is(err, fs.ErrNotExist):
		return t.notFound()
	case errors.Is(err, syscall.ENOTDIR):
		return tool.BadArgument(t.pointer, ReasonNotAFolder, "%s leads through a file as if it were a folder", t.path)
	case errors.Is(err, fs.ErrPermission):
		return tool.Fail(ReasonPermission, "%s: permission denied", t.path)
	}
	return fmt.Errorf("%s: %w", t.path, err)
}

// notFound names what is close by, so that the next guess is better.
func (t target) notFound() error {
	if resolved, err := t.ws.Resolve(t.pointer, t.name); err == nil && resolved != t.path {
		return t.moved()
	}
	e := tool.BadArgument(t.pointer, tool.ReasonNotFound, "%s does not exist", t.path)
	if near := nearNames(t.ws, t.path); len(near) > 0 {
		e.Hints = []tool.Hint{{
			Level: tool.Info, Code: "SIMILAR_NAMES",
			Message:    "close by there is: " + strings.Join(near, ", "),
			Suggestion: "use one of these, or glob for the name",
		}}
	}
	return e
}

func metadata(pairs ...string) map[string]string {
	m := make(map[string]string, len(pairs)/2+4)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// valid makes s fit for a result: bytes that are no UTF-8 become U+FFFD.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
