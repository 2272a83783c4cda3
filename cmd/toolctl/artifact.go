package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold/toold/client"
	"github.com/toold/toold/cmd/toolctl/internal/term"
	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

const artifactPrefix = "toold://artifacts/"

func (a *app) artifactCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "artifact",
		Short: "Read back whole outputs",
		Args:  args(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.artifactGetCommand(), a.artifactListCommand())
	return c
}

func (a *app) artifactGetCommand() *cobra.Command {
	var file, byteRange, lineRange string
	var follow bool
	c := &cobra.Command{
		Use:   "get URI",
		Short: "Write an artifact, or a range of it, byte for byte",
		Long: `Write an artifact to standard output or a file, byte for byte. A whole one is
checked against its SHA-256, and a file appears only when it is right.

  --bytes 100:200   from byte 100 up to byte 200, the latter not included
  --bytes=-4096:    the last 4096 bytes
  --lines 10:20     lines 10 to 20, both included; the first line is 1`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			req, err := artifactRequest(args[0], byteRange, lineRange)
			if err != nil {
				return usage(err)
			}
			req.Follow = follow
			return a.getArtifact(c.Context(), req, file)
		},
	}
	c.Flags().StringVarP(&file, "file", "O", "", "write into this file")
	c.Flags().StringVar(&byteRange, "bytes", "", "only these bytes, FROM:TO")
	c.Flags().StringVar(&lineRange, "lines", "", "only these lines, FIRST:LAST")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "when it is still being written, stay until it is complete")
	return c
}

func artifactRequest(uri, byteRange, lineRange string) (*tooldv1.ReadArtifactRequest, error) {
	if !strings.Contains(uri, "://") {
		uri = artifactPrefix + uri
	}
	req := &tooldv1.ReadArtifactRequest{Uri: uri}
	switch {
	case byteRange != "" && lineRange != "":
		return nil, errors.New("either --bytes or --lines, not both")
	case byteRange != "":
		r, err := parseBytes(byteRange)
		if err != nil {
			return nil, fmt.Errorf("--bytes %s: %w", byteRange, err)
		}
		req.Range = &tooldv1.ReadArtifactRequest_Bytes{Bytes: r}
	case lineRange != "":
		r, err := parseLines(lineRange)
		if err != nil {
			return nil, fmt.Errorf("--lines %s: %w", lineRange, err)
		}
		req.Range = &tooldv1.ReadArtifactRequest_Lines{Lines: r}
	}
	return req, nil
}

func parseBytes(s string) (*tooldv1.ByteRange, error) {
	from, to, err := pair(s)
	if err != nil {
		return nil, err
	}
	r := &tooldv1.ByteRange{}
	if from != nil {
		r.Offset = *from
	}
	switch {
	case to == nil:
	case r.GetOffset() < 0 || *to <= r.GetOffset():
		return nil, errors.New("want FROM:TO with FROM below TO, or FROM: and -COUNT: for all to the end")
	default:
		r.Length = *to - r.GetOffset()
	}
	return r, nil
}

func parseLines(s string) (*tooldv1.LineRange, error) {
	first, last, err := pair(s)
	if err != nil {
		return nil, err
	}
	r := &tooldv1.LineRange{First: 1}
	if first != nil {
		r.First = *first
	}
	if last != nil {
		r.Count = *last - r.GetFirst() + 1
	}
	if r.GetFirst() < 1 || last != nil && r.GetCount() < 1 {
		return nil, errors.New("want FIRST:LAST, from 1 on; either may be left out")
	}
	return r, nil
}

// pair reads A:B, either of which may be missing.
func pair(s string) (a, b *int64, err error) {
	left, right, ok := strings.Cut(s, ":")
	if !ok {
		return nil, nil, errors.New("want two numbers with a colon, such as 10:20")
	}
	number := func(s string) *int64 {
		if s == "" {
			return nil
		}
		n, e := strconv.ParseInt(s, 10, 64)
		if e != nil {
			err = fmt.Errorf("%q is not a whole number", s)
		}
		return &n
	}
	a, b = number(left), number(right)
	return a, b, err
}

func (a *app) getArtifact(ctx context.Context, req *tooldv1.ReadArtifactRequest, file string) error {
	if a.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, a.timeout)
		defer stop()
	}
	return a.reach(ctx, func(c *client.Client) error {
		d := &download{client: tooldv1.NewArtifactServiceClient(c.Conn()), req: req, w: a.out}
		switch {
		case file != "":
			return a.toFile(ctx, d, file)
		case !a.outTTY:
			_, err := d.run(ctx)
			return err
		}
		safe := term.NewWriter(a.out)
		d.w = textOnly{safe}
		_, err := d.run(ctx)
		return errors.Join(err, safe.Flush())
	})
}

// toFile writes a file that appears only when it is whole.
func (a *app) toFile(ctx context.Context, d *download, file string) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".toolctl-*")
	if err != nil {
		return usage(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name()) // the first error is what matters
		}
	}()
	d.w = tmp
	header, err := d.run(ctx)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return usage(err)
	}
	a.say("%s: %s of %s, %s", file, size(d.written), header.GetName(), mediaType(header.GetRef().GetMediaType()))
	return nil
}

// textOnly refuses what would be noise on a terminal.
type textOnly struct{ w io.Writer }

func (t textOnly) Write(p []byte) (int, error) {
	if !isText(p) {
		return 0, errBinary
	}
	return t.w.Write(p)
}

func (a *app) artifactListCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list BATCH_ID[/CALL_ID]",
		Short:             "List the artifacts of a batch or a call",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeBatches,
		RunE: func(c *cobra.Command, args []string) error {
			batch, call, _ := strings.Cut(args[0], "/")
			return a.ask(c.Context(), func(ctx context.Context, cl *client.Client) error {
				return a.listArtifacts(ctx, cl, &tooldv1.ListArtifactsRequest{BatchId: batch, CallId: call, PageSize: maxPage})
			})
		},
	}
}

func (a *app) listArtifacts(ctx context.Context, c *client.Client, req *tooldv1.ListArtifactsRequest) error {
	all := &tooldv1.ListArtifactsResponse{}
	for {
		page, err := tooldv1.NewArtifactServiceClient(c.Conn()).ListArtifacts(ctx, req)
		if err != nil {
			return err
		}
		all.Artifacts = append(all.Artifacts, page.GetArtifacts()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if a.output == outputJSON {
		return a.printMessage(all)
	}
	if len(all.GetArtifacts()) == 0 {
		a.say("no artifacts")
		return nil
	}
	t := term.Table{Columns: []term.Column{
		{Title: "URI"}, {Title: "CALL", Max: 24, Drop: 1}, {Title: "NAME", Drop: 2}, {Title: "SIZE", Drop: 3, Right: true}, {Title: "TYPE", Drop: 4},
	}}
	for _, f := range all.GetArtifacts() {
		bytes := size(f.GetRef().GetSizeBytes())
		if f.GetLive() {
			bytes += " so far"
		}
		t.Rows = append(t.Rows, []term.Cell{
			{Text: f.GetRef().GetUri()}, {Text: f.GetCallId()}, {Text: f.GetName()}, {Text: bytes}, {Text: mediaType(f.GetRef().GetMediaType())},
		})
	}
	a.table(t)
	return nil
}
