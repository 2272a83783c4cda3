// Package budget fits what tools return to what its reader can take. It divides
// a batch's budget among its calls, counts tokens, and cuts what does not fit so
// that the cut can be seen and the rest be found. It is pure: the same inputs
// give the same output, whatever else runs.
package budget

import (
	"fmt"

	"github.com/toold/toold/internal/tool"
)

// The defaults of a request and the clamps of the formula in Divide.
const (
	DefaultBytesPerCall  int64  = 100_000
	DefaultBytesPerBatch int64  = 300_000
	DefaultTokensPerCall Tokens = 2048

	MinBytesPerCall  int64  = 256
	MinTokensPerCall Tokens = 96

	minTotal Tokens = 256
	maxTotal Tokens = 8192
)

// Limits is what a request says of the size of its results. The zero value asks
// for the defaults: byte limits only.
type Limits struct {
	ContextRemaining Tokens    // what the model's context still holds; 0 = no limit in tokens
	MaxBytesPerCall  int64     // 0 = DefaultBytesPerCall
	MaxBytesPerBatch int64     // 0 = DefaultBytesPerBatch
	MaxTokensPerCall Tokens    // 0 = DefaultTokensPerCall
	Tokenizer        Tokenizer // "" = Estimate
	Cut              *tool.Cut // nil = each tool's own
}

// Caps bounds what a request may ask for; more is lowered to the cap.
type Caps struct {
	BytesPerCall  int64
	BytesPerBatch int64
	TokensPerCall Tokens
}

// DefaultCaps are the caps of a server whose configuration says nothing. A
// capture keeps 256 KiB in memory, so that more bytes a call have no effect.
var DefaultCaps = Caps{BytesPerCall: 256 << 10, BytesPerBatch: 2 << 20, TokensPerCall: 64 << 10}

// Share is what one result of a batch may take. Both limits hold.
type Share struct {
	Bytes       int64
	BytesReason tool.TruncationReason // CutByCallBytes or CutByBatchBytes
	Tokens      Tokens                // 0 = no limit
	Total       Tokens                // of the whole batch; 0 = no limit
	Tokenizer   Tokenizer
	Cut         *tool.Cut // the request's own wish; nil = the tool's
}

// Divide gives each of the n calls of a batch (n ≥ 1; less is taken as 1) the
// same share:
//
//	bytes   min(MaxBytesPerCall, ⌊MaxBytesPerBatch / n⌋), at least 256
//	total   clamp(⌊0.35 · ContextRemaining⌋, 256, 8192)
//	tokens  clamp(⌊total / n⌋, 96, MaxTokensPerCall)
//
// The floors win: a batch of more than total / 96 calls takes more than total.
// Without ContextRemaining only a MaxTokensPerCall that was asked for limits
// tokens. Shares are equal, and what small results leave is not given to others,
// so that a result does not depend on which call finished first. The formula is
// what toold.v1.OutputBudget promises.
//
// An error names the field of the request and what it may hold.
func Divide(l Limits, caps Caps, n int) (Share, error) {
	if err := l.check(); err != nil {
		return Share{}, err
	}
	n = max(n, 1)
	perCall := min(or(l.MaxBytesPerCall, DefaultBytesPerCall), caps.BytesPerCall)
	perBatch := min(or(l.MaxBytesPerBatch, DefaultBytesPerBatch), caps.BytesPerBatch)
	s := Share{Bytes: perCall, BytesReason: tool.CutByCallBytes, Tokenizer: l.Tokenizer, Cut: l.Cut}
	if each := perBatch / int64(n); each < perCall {
		s.Bytes, s.BytesReason = max(each, MinBytesPerCall), tool.CutByBatchBytes
	}
	ceiling := min(or(l.MaxTokensPerCall, DefaultTokensPerCall), caps.TokensPerCall)
	switch r := l.ContextRemaining; {
	case r > 0:
		s.Total = min(max(r/100*35+r%100*35/100, minTotal), maxTotal)
		s.Tokens = min(max(s.Total/Tokens(n), MinTokensPerCall), ceiling)
	case l.MaxTokensPerCall > 0:
		s.Tokens = ceiling
	}
	return s, nil
}

func (l Limits) check() error {
	if err := l.Tokenizer.check(); err != nil {
		return err
	}
	for _, f := range []struct {
		name       string
		value, min int64
	}{
		{"context_remaining_tokens", int64(l.ContextRemaining), 0},
		{"max_bytes_per_call", l.MaxBytesPerCall, MinBytesPerCall},
		{"max_bytes_per_batch", l.MaxBytesPerBatch, MinBytesPerCall},
		{"max_tokens_per_call", int64(l.MaxTokensPerCall), int64(MinTokensPerCall)},
	} {
		if f.value < 0 || f.value > 0 && f.value < f.min {
			return fmt.Errorf("%s: %d is too small; give 0 for the default, or at least %d", f.name, f.value, max(f.min, 1))
		}
	}
	if l.Cut != nil && *l.Cut > tool.CutHeadTail {
		return fmt.Errorf("truncation_style: %d is unknown", *l.Cut)
	}
	return nil
}

func or[T int64 | Tokens](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// fits says whether an output of this size is within both limits.
func (s Share) fits(bytes int, tokens Tokens) bool {
	return int64(bytes) <= s.Bytes && (s.Tokens == 0 || tokens <= s.Tokens)
}

// reason names the limit that cuts an output of this size deeper.
func (s Share) reason(bytes int64, tokens Tokens) tool.TruncationReason {
	if s.Tokens == 0 || tokens <= s.Tokens {
		return s.BytesReason
	}
	if bytes > s.Bytes && float64(s.Bytes)/float64(bytes) < float64(s.Tokens)/float64(tokens) {
		return s.BytesReason
	}
	return tool.CutByContextTokens
}
