package artifact

import (
	"context"
	"errors"
	"strings"
)

// Scheme begins the URI of an artifact.
const Scheme = "toold://artifacts/"

// URI is the address of the artifact id.
func URI(id string) string { return Scheme + id }

// ParseURI is the inverse of URI. ok is false for any other text.
func ParseURI(uri string) (id string, ok bool) {
	id, ok = strings.CutPrefix(uri, Scheme)
	return id, ok && id != "" && len(id) <= 128 && !strings.ContainsAny(id, "/?#\x00")
}

// ErrNotFound says that the tenant has no artifact of this id.
var ErrNotFound = errors.New("there is no such artifact")

// Record is what is known of an artifact.
type Record struct {
	ID        string
	Blob      Blob   // empty while it is live
	MediaType string // empty = unknown
	Live      bool
}

// Index knows which content an artifact has.
type Index interface {
	// Artifact finds the artifact of that tenant. One that it does not have, or
	// another tenant has, is ErrNotFound.
	Artifact(ctx context.Context, tenant, id string) (Record, error)
}

// Store finds artifacts by id, live ones too.
type Store struct {
	Disk  *Disk
	Index Index
}

// Open opens the artifact of that tenant for reading. It fails with ErrNotFound,
// or ErrGone where only the content is no longer kept. The reader of a live one
// is a *Live.
func (s *Store) Open(ctx context.Context, tenant, id string) (Reader, Record, error) {
	if l, ok := s.Disk.Live(id); ok {
		if l.Tenant() == tenant {
			return l, Record{ID: id, MediaType: l.MediaType(), Live: true}, nil
		}
		_ = l.Close()
		return nil, Record{}, ErrNotFound
	}
	rec, err := s.Index.Artifact(ctx, tenant, id)
	if err != nil {
		return nil, Record{}, err
	}
	r, err := s.Disk.Open(rec.Blob.SHA256)
	return r, rec, err
}
