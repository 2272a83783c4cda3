package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// result shows how a call ended: its output on out, all else on err, further
// blocks too. With streamed, the output was shown while it was made. The end of
// standard error, which a failed command has as a block of its own, is shown
// only where the output was cut and has it no more.
func (s *screen) result(r *row, streamed bool) error {
	if o := r.result.GetOutput(); !streamed {
		if err := s.outputBlock(o); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
		s.rest(o)
	}
	for _, o := range r.result.GetAttachments() {
		t := o.GetText().GetText()
		if t != "" && !streamed && !strings.Contains(r.result.GetOutput().GetText().GetText(), t) {
			s.say("%s", strings.TrimSuffix(t, "\n"))
		}
		s.rest(o)
	}
	for _, c := range r.result.GetChanges() {
		s.say("changed %s: +%d −%d lines%s", c.GetPath(), c.GetLinesAdded(), c.GetLinesRemoved(), created(c))
	}
	s.problem(r)
	return nil
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
	_, err := io.WriteString(s.out, t)
	return err
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
func (s *screen) problem(r *row) {
	if e := r.result.GetError(); e != nil {
		s.say("%s: %s/%s: %s", r.id, word(r.result.GetOutcome()), e.GetReason(), e.GetMessage())
		for _, v := range e.GetViolations() {
			if !strings.Contains(e.GetMessage(), v.GetDescription()) {
				s.say("  %s: %s", or(v.GetPath(), "the arguments"), v.GetDescription())
			}
		}
		if x := r.result.GetExit(); x != nil && x.GetCode() != 0 {
			s.say("  %s", exitWord(x))
		}
		if d := r.decision; !d.GetAllowed() && d.GetPolicyId() != "" {
			s.say("  decided by %s", d.GetPolicyId())
		}
		if e.GetRetryable() {
			s.say("  the same call may succeed later%s", after(e))
		}
	}
	for _, h := range r.result.GetHints() {
		s.say("  %s: %s", strings.ToLower(or(word(h.GetLevel()), "hint")), h.GetMessage())
		if h.GetSuggestion() != "" {
			s.say("    %s", h.GetSuggestion())
		}
	}
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
