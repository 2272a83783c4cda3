package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/toold/toold/internal/budget"
	"github.com/toold/toold/internal/tool"
)

// What a capture holds in memory, in bytes.
const (
	headBytes   = 128 << 10
	tailBytes   = 128 << 10
	stderrBytes = 8 << 10
)

// DefaultMax is how many bytes of a call are captured where nothing else is said.
const DefaultMax int64 = 4 << 30

// ErrFinished is a write to a capture that was finished.
var ErrFinished = errors.New("the capture is finished")

// CaptureOptions says how the output of a call is captured.
type CaptureOptions struct {
	ID        string // of the artifact, by which it is found while it is written
	Tenant    string // whose it is
	MediaType string
	Max       int64 // bytes of all channels together; 0 = DefaultMax
	Tokenizer budget.Tokenizer
}

// Capture takes the output of one running call: all channels in the order of
// arrival and, where standard error was not the only one, standard error once
// more by itself. It holds some 264 KiB in memory; more goes to temporary files
// as it comes. All methods may be called from several goroutines.
type Capture struct {
	disk    *Disk
	options CaptureOptions

	mu       sync.Mutex
	all      *spool
	stderr   *spool              // nil until something is written to it
	channels [tool.Log + 1]int64 // bytes by tool.Channel
	capped   bool
	err      error // the first one; nothing is written after it
	done     bool
	closed   bool
	files    []*os.File // closed with the last reader
	readers  int
	changed  chan struct{} // closed at the next change; nil when nobody waits
}

// NewCapture begins a capture. Close must be called in the end.
func (d *Disk) NewCapture(o CaptureOptions) *Capture {
	if o.Max <= 0 {
		o.Max = DefaultMax
	}
	c := &Capture{disk: d, options: o}
	c.all = newSpool(c.newFile, headBytes, tailBytes, budget.NewCounter(o.Tokenizer))
	if o.ID != "" {
		d.mu.Lock()
		d.live[o.ID] = c
		d.mu.Unlock()
	}
	return c
}

func (c *Capture) newFile() (*os.File, error) {
	f, err := c.disk.newFile()
	if err == nil {
		c.files = append(c.files, f)
	}
	return f, err
}

// Write appends p to ch and gives its place in that channel, in bytes. It keeps
// what fits under Max and fails with tool.ErrOutputCapped when that is not all.
// Any other error is the disk's; the capture takes no more after it. p is not
// kept.
func (c *Capture) Write(ch tool.Channel, p []byte) (offset int64, err error) {
	if ch < tool.Stdout || ch > tool.Log {
		return 0, fmt.Errorf("channel %d is unknown", ch)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	offset = c.channels[ch]
	switch {
	case c.done:
		return offset, ErrFinished
	case c.err != nil:
		return offset, c.err
	}
	if room := c.options.Max - c.all.size; int64(len(p)) > room {
		p, c.capped, err = p[:room], true, tool.ErrOutputCapped
	}
	c.err = c.all.write(p)
	if ch == tool.Stderr && c.err == nil {
		if c.stderr == nil {
			c.stderr = newSpool(c.newFile, 0, stderrBytes, nil)
		}
		c.err = c.stderr.write(p)
	}
	c.channels[ch] += int64(len(p))
	c.wake()
	if c.err != nil {
		return offset, c.err
	}
	return offset, err
}

// wake tells those who wait that something changed.
func (c *Capture) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Summary is what a finished capture has.
type Summary struct {
	Size   int64         // bytes of all channels
	Head   []byte        // the first bytes, up to 128 KiB; not to be changed
	Tail   []byte        // the last bytes after Head, up to 128 KiB
	Tokens budget.Tokens // of all of it, estimated
	SHA256 string        // of all of it
	Capped bool          // something was left out because of Max
}

// Finish ends writing and says what was captured. Only what is in Head and Tail
// is returned; the rest is read live until Close, or kept. An error is the disk's
// and means that the capture is not complete; the summary is of what there is.
func (c *Capture) Finish() (Summary, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.done {
		c.done = true
		if c.err == nil {
			c.err = c.all.finish()
		}
		if c.err == nil && c.stderr != nil {
			c.err = c.stderr.finish()
		}
		c.wake()
	}
	return Summary{
		Size: c.all.size, Capped: c.capped, Head: c.all.head, Tail: c.all.last(tailBytes),
		Tokens: c.all.counter.Tokens(), SHA256: sum(c.all.hash),
	}, c.err
}

// Kept names the contents of a kept capture.
type Kept struct {
	Output Blob
	// Stderr is standard error by itself; nil where it is empty or all there is.
	Stderr *Blob
}

// Keep stores a finished capture durably.
func (c *Capture) Keep(ctx context.Context) (Kept, error) {
	if err := ctx.Err(); err != nil {
		return Kept{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return Kept{}, c.err
	case !c.done || c.closed:
		return Kept{}, errors.New("keeping a capture that is not finished, or closed")
	}
	var k Kept
	var err error
	if k.Output, err = c.all.store(c.disk); err != nil {
		return Kept{}, fmt.Errorf("storing an output of %d bytes: %w", c.all.size, err)
	}
	if c.stderr != nil && c.stderr.size < c.all.size {
		b, err := c.stderr.store(c.disk)
		if err != nil {
			return Kept{}, fmt.Errorf("storing %d bytes of standard error: %w", c.stderr.size, err)
		}
		k.Stderr = &b
	}
	return k, nil
}

// Close ends the capture, and its being found as live. What was not kept is
// dropped, except for those who are reading it. Closing twice is harmless.
func (c *Capture) Close() {
	c.disk.mu.Lock()
	if c.disk.live[c.options.ID] == c {
		delete(c.disk.live, c.options.ID)
	}
	c.disk.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.done, c.closed = true, true
	c.wake()
	c.all.close()
	if c.stderr != nil {
		c.stderr.close()
	}
	c.release()
}

// release closes the files once nobody needs them.
func (c *Capture) release() {
	if !c.closed || c.readers > 0 {
		return
	}
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
}
