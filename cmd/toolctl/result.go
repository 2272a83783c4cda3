package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// showing says how a result is shown.
type showing struct {
	name     string // of the call, where there are several; "": not said
	streamed bool   // its output was shown while it was made
	told     bool   // its outcome was
	// whole writes all of an output that is in the result only in part; nil: the
	// part is shown, and where the rest is.
	whole func(uri string) error
}

// result shows how a call ended: its output on out, all else on err, further
// blocks too. The end of standard error, which a command has as a block of its
// own, is shown only where the output was cut and has it no more.
func (s *screen) result(r *row, how showing) error {
	o := r.result.GetOutput()
	all := how.streamed
	var err error
	switch ref := elsewhere(o); {
	case how.streamed:
	case how.whole != nil && ref != nil:
		err = how.whole(ref.GetUri())
		all = r.result.GetExit() != nil
	default:
		err = s.outputBlock(o)
		s.rest(o)
	}
	for _, block := range r.result.GetAttachments() {
		if t := block.GetText().GetText(); t != "" {
			if all || strings.Contains(visible(o), t) {
				continue
			}
			s.say("%s", strings.TrimSuffix(t, "\n"))
		}
		s.rest(block)
	}
	for _, c := range r.result.GetChanges() {
		if !strings.Contains(visible(o), c.GetPath()) { // else the tool told it
			s.say("changed %s: +%d −%d lines%s", c.GetPath(), c.GetLinesAdded(), c.GetLinesRemoved(), created(c))
		}
	}
	s.problem(r, how)
	s.endLine()
	return err
}

// elsewhere is the artifact with the bytes of an output that the result has not,
// or not as they were; nil when the result has them.
func elsewhere(o *tooldv1.ToolOutput) *tooldv1.ArtifactRef {
	switch o := o.GetOutput().(type) {
	case *tooldv1.ToolOutput_Truncated:
		return o.Truncated.GetFull()
	case *tooldv1.ToolOutput_Text:
		if o.Text.GetLossy() {
			return o.Text.GetArtifact()
		}
	case *tooldv1.ToolOutput_Binary:
		if len(o.Binary.GetData()) == 0 {
			return o.Binary.GetArtifact()
		}
	}
	return nil
}

// visible is the text of an output; "" when it has none.
func visible(o *tooldv1.ToolOutput) string {
	return o.GetText().GetText() + o.GetTruncated().GetVisible() + o.GetStructured().GetTextRendering()
}

func created(c *tooldv1.Change) string {
	switch {
	case c.GetBeforeSha256() == "":
		return " (new)"
	case c.GetAfterSha256() == "":
		return " (deleted)"
	}
	return ""
}

// outputBlock writes what a block holds; a variant that is not known is nothing.
func (s *screen) outputBlock(o *tooldv1.ToolOutput) error {
	switch o := o.GetOutput().(type) {
	case *tooldv1.ToolOutput_Text:
		return s.text(o.Text.GetText())
	case *tooldv1.ToolOutput_Truncated:
		return s.text(o.Truncated.GetVisible())
	case *tooldv1.ToolOutput_Structured:
		if t := o.Structured.GetTextRendering(); t != "" {
			return s.text(t)
		}
		return s.text(o.Structured.GetJson() + "\n")
	case *tooldv1.ToolOutput_Binary:
		if !s.outTTY {
			_, err := s.out.Write(o.Binary.GetData())
			return err
		}
	}
	return nil
}

// text writes text as it is; on a terminal harmless, and with a newline at its
// end.
func (s *screen) text(t string) error {
	t = s.shown(t)
	if s.outTTY && t != "" && !strings.HasSuffix(t, "\n") {
		t += "\n"
	}
	if _, err := io.WriteString(s.out, t); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// rest says how to get what was not shown.
func (s *screen) rest(o *tooldv1.ToolOutput) {
	if t := o.GetTruncated(); t != nil {
		s.say("truncated (%s): %s; all of it: toolctl artifact get %s", word(t.GetReason()), kept(t), t.GetFull().GetUri())
	}
	if b := o.GetBinary(); b != nil {
		what := fmt.Sprintf("%s, %s", mediaType(b.GetMediaType()), size(b.GetSizeBytes()))
		switch {
		case b.GetArtifact() != nil:
			s.say("%s: toolctl artifact get %s -O FILE", what, b.GetArtifact().GetUri())
		case s.outTTY:
			s.say("%s: not shown on a terminal; send the output to a file", what)
		}
	}
	if t := o.GetText(); t.GetLossy() {
		s.say("invalid UTF-8 was replaced; the bytes as they were: toolctl artifact get %s", t.GetArtifact().GetUri())
	}
}

func mediaType(t string) string {
	if t == "" {
		return "application/octet-stream"
	}
	return t
}

// kept says how much of an output there is, in the unit of the limit that cut.
func kept(t *tooldv1.Truncated) string {
	if t.GetReason() == tooldv1.TruncationReason_TRUNCATION_REASON_CONTEXT_TOKENS {
		return fmt.Sprintf("%d of %d tokens", t.GetKeptTokens(), t.GetOriginalTokens())
	}
	return fmt.Sprintf("%s of %s", size(t.GetKeptBytes()), size(t.GetOriginalBytes()))
}

// problem tells on err why a call did not succeed, and all hints.
func (s *screen) problem(r *row, how showing) {
	lines := r.advice()
	if e := r.result.GetError(); e != nil && !how.told {
		title := fmt.Sprintf("%s/%s: %s", word(r.result.GetOutcome()), e.GetReason(), e.GetMessage())
		if how.name != "" {
			title = how.name + ": " + title
		}
		s.say("%s", title)
		if x := r.result.GetExit(); x != nil && x.GetCode() != 0 {
			s.say("  %s", exitWord(x))
		}
	} else if how.name != "" && len(lines) > 0 {
		s.say("%s:", how.name)
	}
	for _, l := range lines {
		s.say("  %s", l)
	}
}

// advice is what there is to know of a call beside outcome, reason and message.
func (r *row) advice() (lines []string) {
	hints := r.result.GetHints()
	if e := r.result.GetError(); e != nil {
		for _, v := range e.GetViolations() {
			if !strings.Contains(e.GetMessage(), v.GetDescription()) {
				lines = append(lines, or(v.GetPath(), "the arguments")+": "+v.GetDescription())
			}
		}
		if d := r.decision; !d.GetAllowed() && d.GetPolicyId() != "" && !invalid(d) && !mentioned(d.GetPolicyId(), hints) {
			lines = append(lines, "decided by "+d.GetPolicyId())
		}
		if e.GetRetryable() {
			lines = append(lines, "the same call may succeed later"+after(e))
		}
	}
	for _, h := range hints {
		lines = append(lines, strings.ToLower(or(word(h.GetLevel()), "hint"))+": "+h.GetMessage())
		if h.GetSuggestion() != "" {
			lines = append(lines, "  "+h.GetSuggestion())
		}
	}
	return lines
}

func mentioned(what string, hints []*tooldv1.Hint) bool {
	return slices.ContainsFunc(hints, func(h *tooldv1.Hint) bool { return strings.Contains(h.GetMessage(), what) })
}

func after(e *tooldv1.ErrorDetail) string {
	if e.GetRetryAfter() == nil {
		return ""
	}
	return ", after " + e.GetRetryAfter().AsDuration().String()
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// errBinary refuses to write bytes to a terminal.
var errBinary = usage(errors.New("this is not text: write it to a file with -O FILE, or into a pipe"))

// isText says whether the beginning of an output is text; its last character may
// be cut.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == 0:
			return false
		case r == utf8.RuneError && n == 1:
			return !utf8.FullRune(b)
		}
		b = b[n:]
	}
	return true
}
