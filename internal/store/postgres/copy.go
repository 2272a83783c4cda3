package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/toold/toold/internal/audit"
	"github.com/toold/toold/internal/tool"
)

// message is what goes to the server in one write: protocol messages (version 3),
// with rows in COPY's binary format.
type message struct {
	b       []byte
	answers int // times that the server will say that it is ready
}

// keep is how much buffer is kept from one flush to the next, in bytes.
const keep = 4 << 20

func (m *message) reset() {
	if cap(m.b) > keep {
		m.b = nil
	}
	m.b, m.answers = m.b[:0], 0
}

// frame appends one message of type t with the body that write appends.
func (m *message) frame(t byte, write func()) {
	at := len(m.b)
	m.b = append(m.b, t, 0, 0, 0, 0)
	write()
	binary.BigEndian.PutUint32(m.b[at+1:], uint32(len(m.b)-at-1))
}

func (m *message) query(text string) {
	m.frame('Q', func() { m.cstring(text) })
	m.answers++
}

func (m *message) cstring(s string) { m.b = append(append(m.b, s...), 0) }

// run executes a prepared statement with text parameters.
func (m *message) run(statement string, params ...string) {
	m.frame('B', func() {
		m.cstring("") // portal
		m.cstring(statement)
		m.b = append(m.b, 0, 0) // all parameters are text
		m.int2(len(params))
		for _, p := range params {
			m.text(p)
		}
		m.b = append(m.b, 0, 0)
	})
	m.frame('E', func() { m.b = append(m.b, 0, 0, 0, 0, 0) }) // that portal, all rows
	m.frame('S', func() {})
	m.answers++
}

// target is a table and the columns that are written.
type target struct {
	text   string
	fields uint16
}

func into(table, columns string) target {
	return target{"COPY " + table + " (" + columns + ") FROM STDIN BINARY", uint16(strings.Count(columns, ",") + 1)}
}

var copyHeader = append([]byte("PGCOPY\n\xff\r\n\x00"), 0, 0, 0, 0, 0, 0, 0, 0)

// copy sends n rows; row writes one value for each column.
func (m *message) copy(t target, n int, row func(i int)) {
	if n == 0 {
		return
	}
	m.query(t.text)
	m.frame('d', func() {
		m.b = append(m.b, copyHeader...)
		for i := range n {
			m.b = binary.BigEndian.AppendUint16(m.b, t.fields)
			row(i)
		}
		m.b = append(m.b, 0xff, 0xff)
	})
	m.frame('c', func() {})
}

// The methods below append one value, its length in front.

func (m *message) null() { m.b = append(m.b, 0xff, 0xff, 0xff, 0xff) }

func (m *message) size(n int) { m.b = binary.BigEndian.AppendUint32(m.b, uint32(n)) }

func (m *message) int2(n int) { m.b = binary.BigEndian.AppendUint16(m.b, uint16(n)) }

func (m *message) text(s string) {
	m.size(len(s))
	m.b = append(m.b, s...)
}

func (m *message) maybe(s string) {
	if s == "" {
		m.null()
		return
	}
	m.text(s)
}

func (m *message) bytea(b []byte) {
	m.size(len(b))
	m.b = append(m.b, b...)
}

func (m *message) maybeDigest(d *audit.Digest) {
	if *d == (audit.Digest{}) {
		m.null()
		return
	}
	m.bytea(d[:])
}

func (m *message) smallint(n int) {
	m.size(2)
	m.int2(n)
}

func (m *message) integer(n int) {
	m.size(4)
	m.size(n)
}

func (m *message) bigint(n int64) {
	m.size(8)
	m.b = binary.BigEndian.AppendUint64(m.b, uint64(n))
}

func (m *message) positive(n int64) {
	if n == 0 {
		m.null()
		return
	}
	m.bigint(n)
}

func (m *message) boolean(v bool) {
	if v {
		m.b = append(m.b, 0, 0, 0, 1, 1)
	} else {
		m.b = append(m.b, 0, 0, 0, 1, 0)
	}
}

// epoch is Postgres' own, 2000-01-01, in microseconds since 1970.
const epoch = 946_684_800_000_000

func (m *message) time(t time.Time) { m.bigint(t.UnixMicro() - epoch) }

func (m *message) maybeTime(t time.Time) {
	if t.IsZero() {
		m.null()
		return
	}
	m.time(t)
}

// uuid writes what is no UUID as text: the server then says so.
func (m *message) uuid(s string) {
	id, err := uuid.Parse(s)
	if err != nil {
		m.text(s)
		return
	}
	m.bytea(id[:])
}

func (m *message) maybeUUID(s string) {
	if s == "" {
		m.null()
		return
	}
	m.uuid(s)
}

func (m *message) jsonb(v any) {
	var b bytes.Buffer
	b.WriteByte(1) // version of the format
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // labels and effects always have a form
	}
	m.bytea(b.Bytes())
}

func (m *message) labels(l map[string]string) {
	if len(l) == 0 {
		m.text("\x01{}")
		return
	}
	m.jsonb(l)
}

func (m *message) effects(l []tool.Effect) {
	if len(l) == 0 {
		m.text("\x01[]")
		return
	}
	m.jsonb(l)
}

// Type oids that array values name.
const (
	oidText = 25
	oidUUID = 2950
)

func (m *message) array(oid int, items []string, item func(string)) {
	at := len(m.b)
	m.size(0)
	if len(items) == 0 {
		m.size(0) // dimensions
		m.size(0) // no NULLs
		m.size(oid)
	} else {
		m.size(1)
		m.size(0)
		m.size(oid)
		m.size(len(items))
		m.size(1) // first index
		for _, s := range items {
			item(s)
		}
	}
	binary.BigEndian.PutUint32(m.b[at:], uint32(len(m.b)-at-4))
}

// inet writes a canonical address.
func (m *message) inet(s string) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		m.null()
		return
	}
	ip := a.AsSlice()
	family := byte(2)
	if a.Is6() {
		family = 3
	}
	m.size(4 + len(ip))
	m.b = append(m.b, family, byte(8*len(ip)), 0, byte(len(ip)))
	m.b = append(m.b, ip...)
}

// literal is an array of words or numbers in text form.
func literal[E any](n int, item func(i int) E) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		switch v := any(item(i)).(type) {
		case int64:
			b.WriteString(strconv.FormatInt(v, 10))
		case string:
			b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`)
		}
	}
	b.WriteByte('}')
	return b.String()
}
