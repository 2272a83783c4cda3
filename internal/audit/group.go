package audit

import (
	"encoding/binary"
	"sync"
	"time"
)

// item is an entry on its way: checked, and hashed by its caller so that the
// writer need not.
type item struct {
	entry  *Entry
	starts []StartRow
	leaves []Digest // batch, decisions, starts, outcomes, artifacts, admin
	claim  *Claim
	size   int // bytes, roughly
	intent bool

	taken, withdrawn bool // under Log.mu

	lost     *TakenError // set by seal
	answered bool        // the writer's
	err      error
	done     chan struct{}
}

func (it *item) answer(err error) {
	if it.answered {
		return
	}
	it.answered, it.err = true, err
	close(it.done)
}

var leafPool = sync.Pool{New: func() any { return &leaf{buf: make([]byte, 0, 1024)} }}

// rowBytes is what a ledger row is taken to weigh.
const rowBytes = 512

func (l *Log) newItem(e *Entry, starts []StartRow) (*item, error) {
	it := &item{entry: e, starts: starts, done: make(chan struct{})}
	lf := leafPool.Get().(*leaf)
	defer leafPool.Put(lf)
	lf.now, lf.err = l.o.Now(), nil

	it.leaves = make([]Digest, 0, 1+len(e.Decisions)+len(starts)+len(e.Outcomes)+len(e.Artifacts)+len(e.Admin))
	add := func(d Digest) { it.leaves = append(it.leaves, d) }
	if a := e.Accept; a != nil {
		a.Facts.PeerAddr = canonicalAddr(a.Facts.PeerAddr)
		add(lf.batch(&a.Facts))
		it.size += len(a.Request)
		if !a.Dry && a.Facts.RequestID != "" {
			f := &a.Facts
			it.claim = &Claim{
				Tenant: f.Tenant, Principal: f.Principal, RequestID: f.RequestID, Digest: f.RequestDigest,
				Batch: f.ID, ExpiresAt: f.AcceptedAt.Add(l.o.RequestRetention),
			}
		}
	}
	for i := range e.Decisions {
		d := &e.Decisions[i]
		add(lf.decision(d))
		if d.First != nil {
			it.size += len(d.First.ArgsMasked)
		}
	}
	for i := range starts {
		starts[i].Replica = l.o.Replica
		add(lf.start(&starts[i]))
	}
	for i := range e.Outcomes {
		add(lf.outcome(&e.Outcomes[i]))
	}
	for i := range e.Artifacts {
		fillID(&e.Artifacts[i].EventID, l.o.NewID)
		add(lf.artifact(&e.Artifacts[i]))
	}
	for i := range e.Admin {
		fillID(&e.Admin[i].EventID, l.o.NewID)
		add(lf.admin(&e.Admin[i]))
	}
	if s := e.Stream; s != nil {
		lf.uuid("stream", string(s.Batch))
	} else if len(e.Events)+len(e.Held) > 0 || e.End != "" {
		lf.fail("stream", "is missing: events, held results and an end belong to a batch")
	}
	for i := range e.Events {
		it.size += len(e.Events[i].stored())
	}
	for i := range e.Held {
		it.size += len(e.Held[i].Body)
	}
	it.size += rowBytes * len(it.leaves)
	if lf.err != nil {
		return nil, lf.err
	}
	return it, nil
}

func fillID(id *string, newID func() string) {
	if *id == "" {
		*id = newID()
	}
}

func (e *Event) stored() []byte {
	if e.Stored != nil {
		return e.Stored
	}
	return e.Wire
}

// group is what one commit is made of. Seal may run more than once; only landed
// changes anything outside.
type group struct {
	log     *Log
	items   []*item
	claims  []Claim
	now     time.Time
	block   *Block
	streams []*numbering // in order of first appearance
}

// numbering is a stream's part in a group.
type numbering struct {
	stream *Stream
	last   int64
	new    []Numbered
	row    EventRow
}

func (l *Log) newGroup(items []*item) *group {
	g := &group{log: l, items: items, now: l.o.Now()}
	for _, it := range items {
		if it.claim != nil {
			g.claims = append(g.claims, *it.claim)
		}
	}
	return g
}

// seal builds the block out of what won its claims.
func (g *group) seal(lost []*TakenError) *Block {
	g.streams = nil
	b := &Block{Writer: g.log.writer, No: g.log.no + 1, Prev: g.log.head}
	rows := 0
	for _, it := range g.items {
		rows += len(it.leaves)
	}
	leaves := make([]Digest, 0, rows)
	live := false
	for _, it := range g.items {
		it.lost = nil
		if it.claim != nil {
			it.lost, lost = lost[0], lost[1:]
		}
		if it.lost != nil {
			continue
		}
		b.add(it, len(leaves))
		leaves = append(leaves, it.leaves...)
		live = live || len(it.entry.Events)+len(it.entry.Held) > 0 || it.entry.End != ""
	}
	if len(leaves) == 0 && !live {
		g.block = nil
		return nil
	}
	g.number(b)
	// A group of events alone still gets its block, over no leaves: it is how the
	// fate of a commit is found out.
	b.Leaves = len(leaves)
	b.Root = Root(leaves)
	b.Hash = BlockHash(b.Prev, b.Writer, b.No, b.Leaves, b.Root)
	g.block = b
	return b
}

// add puts an item's ledger rows and live batch into the block; its leaves start
// at number no.
func (b *Block) add(it *item, no int) {
	e := it.entry
	next := func() int { no++; return no - 1 }
	if a := e.Accept; a != nil {
		b.Batches = append(b.Batches, Leaf[Batch]{&a.Facts, next()})
		if !a.Dry {
			f := &a.Facts
			b.Live = append(b.Live, LiveBatch{
				ID: f.ID, Tenant: f.Tenant, Principal: f.Principal, RequestID: f.RequestID, Session: f.Session,
				Workspace: f.Workspace, Labels: f.Labels, State: "RUNNING", Request: a.Request,
				AcceptedAt: f.AcceptedAt, Deadline: a.Deadline,
			})
		}
	}
	for i := range e.Decisions {
		b.Decisions = append(b.Decisions, Leaf[Decision]{&e.Decisions[i], next()})
	}
	for i := range it.starts {
		b.Starts = append(b.Starts, Leaf[StartRow]{&it.starts[i], next()})
	}
	for i := range e.Outcomes {
		b.Outcomes = append(b.Outcomes, Leaf[Outcome]{&e.Outcomes[i], next()})
	}
	for i := range e.Artifacts {
		b.Artifacts = append(b.Artifacts, Leaf[ArtifactEvent]{&e.Artifacts[i], next()})
	}
	for i := range e.Admin {
		b.Admin = append(b.Admin, Leaf[AdminEvent]{&e.Admin[i], next()})
	}
	for i := range e.Held {
		b.Held = append(b.Held, HeldRow{Batch: e.Stream.Batch, Index: e.Held[i].Index, Body: e.Held[i].Body})
	}
}

// number gives the group's events their numbers, packs those of a batch into
// one row, and ends batches.
func (g *group) number(b *Block) {
	of := make(map[*Stream]*numbering)
	for _, it := range g.items {
		e := it.entry
		if it.lost != nil || e.Stream == nil {
			continue
		}
		n := of[e.Stream]
		if n == nil {
			n = &numbering{stream: e.Stream, last: e.Stream.next}
			of[e.Stream] = n
			g.streams = append(g.streams, n)
		}
		for i := range e.Events {
			n.add(&e.Events[i])
		}
		if e.End != "" {
			b.end(EndRow{Batch: e.Stream.Batch, State: e.End, EndedAt: g.now, LastSeq: n.last})
		}
	}
	for _, n := range g.streams {
		if len(n.new) > 0 {
			n.row.Batch, n.row.First, n.row.Last = n.stream.Batch, n.stream.next+1, n.last
			b.Events = append(b.Events, n.row)
		}
	}
}

// end marks a batch that this very block opens, or adds an end row.
func (b *Block) end(row EndRow) {
	for i := range b.Live {
		if l := &b.Live[i]; l.ID == row.Batch {
			l.State, l.EndedAt, l.LastSeq = row.State, row.EndedAt, row.LastSeq
			return
		}
	}
	b.Ends = append(b.Ends, row)
}

// seqField is the tag of protobuf field 2 as a varint: where an event keeps its
// number.
const seqField = 0x10

func (n *numbering) add(e *Event) {
	n.last++
	if e.NumberedAs != nil {
		e.NumberedAs(n.last)
	}
	if e.Build != nil {
		e.Wire, e.Stored = e.Build()
	}
	body := e.stored()
	var tail [1 + binary.MaxVarintLen64]byte
	tail[0] = seqField
	num := tail[:1+binary.PutUvarint(tail[1:], uint64(n.last))]

	n.row.Bytes = binary.AppendUvarint(n.row.Bytes, uint64(len(body)+len(num)))
	n.row.Bytes = append(append(n.row.Bytes, body...), num...)

	wire := make([]byte, 0, len(e.Wire)+len(num))
	n.new = append(n.new, Numbered{Seq: n.last, Wire: append(append(wire, e.Wire...), num...)})
}

// landed makes a durable group visible: streams first, then the callers.
func (g *group) landed() {
	if g.block != nil {
		g.log.no, g.log.head = g.block.No, g.block.Hash
	}
	for _, n := range g.streams {
		n.stream.next = n.last
		if len(n.new) > 0 && n.stream.Deliver != nil {
			n.stream.Deliver(n.new)
		}
	}
	for _, it := range g.items {
		if it.lost != nil {
			it.answer(it.lost)
			continue
		}
		if a := it.entry.Accept; it.answered && a != nil && !a.Dry && g.log.o.Orphaned != nil {
			g.log.o.Orphaned(a.Facts.ID)
		}
		it.answer(nil)
	}
}

func (g *group) unanswered() []*item {
	var out []*item
	for _, it := range g.items {
		if !it.answered {
			out = append(out, it)
		}
	}
	return out
}

// Unpack takes an event row apart. A damaged row gives what is whole before the
// damage.
func (r EventRow) Unpack(to []Numbered) []Numbered {
	seq, rest := r.First, r.Bytes
	for len(rest) > 0 {
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > uint64(len(rest)-w) {
			return to
		}
		end := w + int(n)
		to = append(to, Numbered{Seq: seq, Wire: rest[w:end:end]})
		seq, rest = seq+1, rest[end:]
	}
	return to
}
