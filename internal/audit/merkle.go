package audit

import (
	"crypto/sha256"
	"encoding/binary"
)

// Digests recomputes the leaf hashes of a block's ledger rows, by leaf number.
// A number that is missing or taken twice leaves a zero digest.
func (b *Block) Digests() []Digest {
	var l leaf
	out := make([]Digest, b.Leaves)
	put := func(no int, d Digest) {
		if no >= 0 && no < len(out) && out[no] == (Digest{}) {
			out[no] = d
		}
	}
	for _, r := range b.Batches {
		put(r.No, l.batch(r.Row))
	}
	for _, r := range b.Decisions {
		put(r.No, l.decision(r.Row))
	}
	for _, r := range b.Starts {
		put(r.No, l.start(r.Row))
	}
	for _, r := range b.Outcomes {
		put(r.No, l.outcome(r.Row))
	}
	for _, r := range b.Artifacts {
		put(r.No, l.artifact(r.Row))
	}
	for _, r := range b.Admin {
		put(r.No, l.admin(r.Row))
	}
	return out
}

// Root is the root of the Merkle tree over leaf hashes as in RFC 6962, section
// 2.1, with node = SHA-256(0x01 ‖ left ‖ right). It overwrites leaves. The root
// of none is the hash of nothing.
func Root(leaves []Digest) Digest {
	if len(leaves) == 0 {
		return sha256.Sum256(nil)
	}
	// A last node without a sibling moves up as it is: the same tree as the RFC's
	// split at the largest power of two below n.
	var pair [65]byte
	pair[0] = 1
	for n := len(leaves); n > 1; n = (n + 1) / 2 {
		for i := 0; i < n; i += 2 {
			if i+1 == n {
				leaves[i/2] = leaves[i]
				continue
			}
			copy(pair[1:], leaves[i][:])
			copy(pair[33:], leaves[i+1][:])
			leaves[i/2] = sha256.Sum256(pair[:])
		}
	}
	return leaves[0]
}

// BlockHash is SHA-256(prev ‖ column(writer) ‖ no ‖ leaves ‖ root), numbers as 8
// bytes big-endian.
func BlockHash(prev Digest, writer string, no int64, leaves int, root Digest) Digest {
	l := leaf{buf: make([]byte, 0, 192)}
	l.buf = append(l.buf, prev[:]...)
	l.bytes([]byte(writer))
	l.buf = binary.BigEndian.AppendUint64(l.buf, uint64(no))
	l.buf = binary.BigEndian.AppendUint64(l.buf, uint64(leaves))
	l.buf = append(l.buf, root[:]...)
	return l.sum()
}

// FirstPrev is what a writer's first block is chained to: SHA-256("start" ‖ the
// newest block hash that the writer found).
func FirstPrev(head Digest) Digest {
	return sha256.Sum256(append([]byte("start"), head[:]...))
}
