package budget

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/tool"
)

func TestDivide(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		calls  int
		want   Share
	}{
		{
			"defaults limit bytes only",
			Limits{},
			1,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes},
		},
		{
			"three calls still have a call's bytes",
			Limits{},
			3,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes},
		},
		{
			"four share the batch's bytes",
			Limits{},
			4,
			Share{Bytes: 75_000, BytesReason: tool.CutByBatchBytes},
		},
		{
			"bytes have a floor",
			Limits{},
			1_000_000,
			Share{Bytes: 256, BytesReason: tool.CutByBatchBytes},
		},
		{
			"more bytes than the cap are the cap",
			Limits{MaxBytesPerCall: 1 << 40, MaxBytesPerBatch: 1 << 40},
			1,
			Share{Bytes: 256 << 10, BytesReason: tool.CutByCallBytes},
		},
		{
			"35 % of the context",
			Limits{ContextRemaining: 10_000},
			2,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes, Tokens: 1750, Total: 3500},
		},
		{
			"one call takes 2048 at most",
			Limits{ContextRemaining: 200_000},
			1,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes, Tokens: 2048, Total: 8192},
		},
		{
			"the batch is the unit: eight calls share one total",
			Limits{ContextRemaining: 200_000},
			8,
			Share{Bytes: 37_500, BytesReason: tool.CutByBatchBytes, Tokens: 1024, Total: 8192},
		},
		{
			"a nearly full context leaves a floor",
			Limits{ContextRemaining: 10},
			1,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes, Tokens: 256, Total: 256},
		},
		{
			"the floor of a call wins over the total",
			Limits{ContextRemaining: 10},
			10,
			Share{Bytes: 30_000, BytesReason: tool.CutByBatchBytes, Tokens: 96, Total: 256},
		},
		{
			"the ceiling can be raised",
			Limits{ContextRemaining: 200_000, MaxTokensPerCall: 5000},
			1,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes, Tokens: 5000, Total: 8192},
		},
		{
			"a ceiling alone limits tokens",
			Limits{MaxTokensPerCall: 1 << 40},
			1,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes, Tokens: 65536},
		},
		{
			"no overflow",
			Limits{ContextRemaining: math.MaxInt64},
			1,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes, Tokens: 2048, Total: 8192},
		},
		{
			"no calls are one",
			Limits{ContextRemaining: 10_000},
			0,
			Share{Bytes: 100_000, BytesReason: tool.CutByCallBytes, Tokens: 2048, Total: 3500},
		},
	} {
		got, err := Divide(tt.limits, DefaultCaps, tt.calls)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestDivideNamesTheBadField(t *testing.T) {
	sideways := tool.Cut(9)
	for field, l := range map[string]Limits{
		"context_remaining_tokens": {ContextRemaining: -1},
		"max_bytes_per_call":       {MaxBytesPerCall: 255},
		"max_bytes_per_batch":      {MaxBytesPerBatch: -1},
		"max_tokens_per_call":      {MaxTokensPerCall: 95},
		"tokenizer":                {Tokenizer: "llama"},
		"truncation_style":         {Cut: &sideways},
	} {
		if _, err := Divide(l, DefaultCaps, 1); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("want an error that begins with %s, got %v", field, err)
		}
	}
}
