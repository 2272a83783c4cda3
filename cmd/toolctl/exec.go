package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	"github.com/toold/toold/cmd/toolctl/internal/typed"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

func (a *app) execCommand() *cobra.Command {
	var f runFlags
	var rawArguments string
	var callTimeout time.Duration
	var follow, noFull bool
	c := &cobra.Command{
		Use:   "exec TOOL [key=value…]",
		Short: "Run one call",
		Long: `Run one call. Its output goes to standard output, all else to standard error.

Values are typed by the tool's input schema:
  toolctl exec read path=main.go startLine=10
  toolctl exec batch_read paths=a.go paths=b.go      a list, one element each time
  toolctl exec bash command='make test' env:='{"CI":"1"}'   := is JSON as it stands
  toolctl exec write path=notes.md content=@draft.md  @FILE is what the file holds, @- standard input
  toolctl exec grep --json '{"pattern":"TODO"}'       all arguments as JSON, @FILE too

On a terminal, or with --follow, output is shown while it is made. Into a pipe or
file the whole output is written byte for byte, however long it is; with
--no-full, --context-remaining or --max-tokens, what a model would get of it.`,
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: streaming,
		RunE: func(c *cobra.Command, args []string) error {
			call := &tooldv1.ToolCall{Tool: args[0]}
			if callTimeout > 0 {
				call.Timeout = durationpb.New(callTimeout)
			}
			var err error
			if call.ArgumentsJson, err = a.arguments(c, args[0], args[1:], rawArguments); err != nil {
				return err
			}
			req := &tooldv1.ExecuteBatchRequest{Spec: &tooldv1.BatchSpec{}, Calls: []*tooldv1.ToolCall{call}}
			if err := f.apply(c, req); err != nil {
				return err
			}
			if a.output == outputText && (follow || a.outTTY) || a.output == outputJSONL && follow {
				req.Spec.Stream = &tooldv1.StreamOptions{OutputChunks: true}
			}
			b := newBoard(req.GetSpec(), req.GetCalls())
			fitted := noFull || c.Flags().Changed("context-remaining") || c.Flags().Changed("max-tokens")
			err = a.execute(c.Context(), req, b, f.cancelOnInterrupt, func(cl *client.Client) view {
				if a.output != outputText {
					return a.batchView(b, false)
				}
				v := newCallView(a.screen, b)
				if !a.outTTY && !fitted {
					v.whole = func(ctx context.Context, uri string) error { return a.whole(ctx, cl, uri) }
				}
				return v
			})
			if errors.Is(err, errCalls) && b.rows[0].result.GetError().GetReason() == "UNKNOWN_TOOL" {
				return &exitError{code: exitUsage}
			}
			return err
		},
	}
	f.register(c, a)
	c.Flags().StringVar(&rawArguments, "json", "", "the arguments as one JSON object, instead of key=value")
	c.Flags().DurationVar(&callTimeout, "call-timeout", 0, "run time of the call (0: the tool's own)")
	c.Flags().BoolVar(&follow, "follow", false, "show output while it is made, in a pipe too")
	c.Flags().BoolVar(&noFull, "no-full", false, "in a pipe too, only what a model would get of a long output")
	c.ValidArgsFunction = a.completeCall
	return c
}

// whole writes all of a call's output.
func (a *app) whole(ctx context.Context, c *client.Client, uri string) error {
	d := &download{client: tooldv1.NewArtifactServiceClient(c.Conn()), req: &tooldv1.ReadArtifactRequest{Uri: uri}, w: a.out}
	header, err := d.run(ctx)
	if err != nil {
		return &exitError{exitService, fmt.Errorf("the call has ended, but its whole output could not be read: %s\n  next: toolctl artifact get %s", own(status.Convert(err)), uri)}
	}
	if header.GetCapped() {
		a.say("the output is not complete: it was longer than toold keeps (limits: toolctl info)")
	}
	return nil
}

// arguments makes the call's JSON from --json or from words.
func (a *app) arguments(c *cobra.Command, tool string, words []string, raw string) (string, error) {
	if c.Flags().Changed("json") {
		if len(words) > 0 {
			return "", usage(errors.New("either --json or key=value, not both"))
		}
		file, is := strings.CutPrefix(raw, "@")
		if is {
			b, err := a.readFile(file)
			if err != nil {
				return "", usage(fmt.Errorf("--json: %w", err))
			}
			raw = string(b)
		}
		if err := typed.CheckObject(raw); err != nil {
			return "", usage(fmt.Errorf("--json: %w", err))
		}
		return raw, nil
	}
	if len(words) == 0 {
		return "", nil
	}
	schema, err := a.schema(c.Context(), tool)
	if err != nil {
		return "", err
	}
	json, err := schema.Object(words, a.readFile)
	if err != nil {
		return "", usage(fmt.Errorf("%s: %w", tool, err))
	}
	return json, nil
}

// schema asks for a tool's input schema.
func (a *app) schema(ctx context.Context, tool string) (typed.Schema, error) {
	var s typed.Schema
	err := a.ask(ctx, func(ctx context.Context, c *client.Client) error {
		resp, err := tooldv1.NewCatalogServiceClient(c.Conn()).GetTool(ctx, &tooldv1.GetToolRequest{Name: tool})
		if err != nil {
			return err
		}
		s, err = typed.ParseSchema(resp.GetTool().GetInputSchemaJson())
		return err
	})
	return s, err
}

// callView shows one call: its output while it is made, then the rest.
type callView struct {
	*screen
	board    *board
	channels map[tooldv1.OutputChannel]*channel
	shown    bool // some output was shown while it was made
	missed   bool // and some was not
	// whole writes all of an output; nil: what the result has is shown.
	whole func(ctx context.Context, uri string) error
}

// channel is one stream of live output.
type channel struct {
	w    io.Writer
	next int64 // offset of the byte to come
}

func newCallView(s *screen, b *board) *callView {
	var out, errs io.Writer = s.out, s.err
	if s.outTTY {
		out = term.NewWriter(out)
	}
	if s.errTTY {
		errs = term.NewWriter(errs)
	}
	return &callView{screen: s, board: b, channels: map[tooldv1.OutputChannel]*channel{
		tooldv1.OutputChannel_OUTPUT_CHANNEL_STDOUT: {w: out},
		tooldv1.OutputChannel_OUTPUT_CHANNEL_STDERR: {w: errs},
		tooldv1.OutputChannel_OUTPUT_CHANNEL_LOG:    {w: errs},
	}}
}

func (v *callView) event(ev *tooldv1.BatchEvent) error {
	v.board.apply(ev, time.Now())
	switch e := ev.GetEvent().(type) {
	case *tooldv1.BatchEvent_Chunk:
		return v.chunk(e.Chunk)
	case *tooldv1.BatchEvent_Gap:
		v.missed = true
	case *tooldv1.BatchEvent_ApprovalRequested:
		v.say("waiting for a human's approval, until %s", e.ApprovalRequested.GetExpireTime().AsTime().Local().Format(time.TimeOnly))
	}
	return nil
}

func (v *callView) chunk(c *tooldv1.OutputChunk) error {
	ch := v.channels[c.GetChannel()]
	if ch == nil {
		return nil
	}
	if missed := c.GetOffset() - ch.next; missed > 0 {
		v.missed = true
		v.say("[%s missed here]", size(missed))
	}
	v.shown = true
	ch.next = c.GetOffset() + int64(len(c.GetData()))
	_, err := ch.w.Write(c.GetData())
	return err
}

func (v *callView) note(text string) { v.say("%s", text) }

func (v *callView) close(ctx context.Context) error {
	for _, ch := range v.channels {
		if w, ok := ch.w.(*term.Writer); ok {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	v.endLine()
	r := v.board.rows[0]
	if r.result == nil {
		return nil
	}
	if v.missed {
		v.say("[some output was missed; the result:]")
	}
	how := showing{streamed: v.shown && !v.missed}
	if v.whole != nil && ctx.Err() == nil {
		how.whole = func(uri string) error { return v.whole(ctx, uri) }
	}
	return v.result(r, how)
}
