package budget

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/toold/toold/internal/tool"
)

// Metadata of a result that was cut. A result that fits has none of it.
const (
	MetaTruncated      = "tool_result_truncated"
	MetaOriginalTokens = "tool_result_original_tokens"
	MetaKeptTokens     = "tool_result_kept_tokens"
	MetaReason         = "tool_result_budget_reason"
)

// CodeTruncated is the code of the hint that says how to get the rest where the
// visible part does not.
const CodeTruncated = "OUTPUT_TRUNCATED"

// Fitted is an output as its reader gets it.
type Fitted struct {
	// Output is what was given where that fits, else Truncated, whose Full the
	// caller fills in.
	Output    tool.Output
	Truncated bool
	// Lossy says that bytes which are not UTF-8 became U+FFFD: the raw bytes are
	// worth an artifact even if nothing was cut.
	Lossy          bool
	OriginalTokens Tokens
	KeptTokens     Tokens // of the original; the marker is not counted
	Metadata       map[string]string
	Hints          []tool.Hint
}

// FitText fits a whole text. uri is where all of it will be found if it is cut;
// it is named beside the cut, and empty where there is no such place. own is the
// tool's way to cut.
func FitText(text string, s Share, own tool.Cut, uri string) Fitted {
	tokens := Count(text, s.Tokenizer)
	if s.fits(len(text), tokens) && utf8.ValidString(text) {
		return Fitted{Output: tool.Text{Text: text}, OriginalTokens: tokens, KeptTokens: tokens}
	}
	if int64(len(text)) <= s.Bytes {
		return s.fitWhole([]byte(text), tokens, own, uri)
	}
	head, tail := []byte(text[:s.Bytes]), []byte(text[int64(len(text))-s.Bytes:])
	return s.cut(ends{head: head, tail: tail, size: int64(len(text)), tokens: tokens}, own, uri)
}

// FitCapture fits what was captured of a stream: its first bytes, its last ones
// (which do not overlap), its size in bytes and the tokens that a Counter found
// in it. Nothing is missing between head and tail if their lengths make up size.
// What is not UTF-8 becomes U+FFFD, one for each run of bad bytes.
func FitCapture(head, tail []byte, size int64, tokens Tokens, s Share, own tool.Cut, uri string) Fitted {
	if int64(len(head))+int64(len(tail)) != size {
		return s.cut(ends{head: head, tail: tail, size: size, tokens: tokens}, own, uri)
	}
	whole := head
	if len(tail) > 0 {
		whole = append(bytes.Clone(head), tail...)
	}
	return s.fitWhole(whole, Count(whole, s.Tokenizer), own, uri)
}

func (s Share) fitWhole(b []byte, tokens Tokens, own tool.Cut, uri string) Fitted {
	valid := repair(b)
	kept := Count(valid, s.Tokenizer)
	if !s.fits(len(valid), kept) {
		return s.cut(ends{head: b, tail: b, size: int64(len(b)), tokens: tokens}, own, uri)
	}
	lossy := !utf8.Valid(b)
	return Fitted{Output: tool.Text{Text: string(valid), Lossy: lossy}, Lossy: lossy, OriginalTokens: tokens, KeptTokens: kept}
}

// FitBinary fits bytes that are not text. They have no tokens; over the share
// nothing of them is visible.
func FitBinary(b tool.Binary, s Share) Fitted {
	size := max(b.Size, int64(len(b.Data)))
	if size <= s.Bytes {
		return Fitted{Output: b}
	}
	return truncated(tool.Truncated{Kind: tool.KindBinary, Full: b.Artifact, OriginalBytes: size, Reason: s.BytesReason})
}

// truncated completes a Fitted around what was cut.
func truncated(t tool.Truncated, hints ...tool.Hint) Fitted {
	return Fitted{
		Output: t, Truncated: true, OriginalTokens: Tokens(t.OriginalTokens), KeptTokens: Tokens(t.KeptTokens), Hints: hints,
		Metadata: map[string]string{
			MetaTruncated:      "true",
			MetaOriginalTokens: strconv.FormatInt(t.OriginalTokens, 10),
			MetaKeptTokens:     strconv.FormatInt(t.KeptTokens, 10),
			MetaReason:         t.Reason.String(),
		},
	}
}

// restHint tells how to get the rest where no marker can.
func restHint(message, uri string) tool.Hint {
	h := tool.Hint{Level: tool.Info, Code: CodeTruncated, Message: message}
	if uri != "" {
		h.Suggestion = "read path=" + uri
	}
	return h
}
