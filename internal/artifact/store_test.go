package artifact

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/toold/toold/internal/tool"
)

// index is an Index of one tenant, "team".
type index map[string]Record

func (x index) Artifact(_ context.Context, tenant, id string) (Record, error) {
	if r, ok := x[id]; ok && tenant == "team" {
		return r, nil
	}
	return Record{}, ErrNotFound
}

func TestStoreOpensWhatItsTenantHas(t *testing.T) {
	d := openDisk(t)
	b, err := d.Put(t.Context(), []byte("stored"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{Disk: d, Index: index{
		"kept": {ID: "kept", Blob: b},
		"old":  {ID: "old", Blob: Blob{SHA256: strings.Repeat("0", 64), Size: 5}},
	}}
	c := d.NewCapture(CaptureOptions{ID: "live", Tenant: "team"})
	defer c.Close()
	if _, err := c.Write(tool.Stdout, []byte("so far")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tenant, id, want string
		err              error
	}{
		{"team", "kept", "stored", nil},
		{"team", "live", "so far", nil},
		{"team", "old", "", ErrGone},
		{"team", "other", "", ErrNotFound},
		{"rival", "kept", "", ErrNotFound},
		{"rival", "live", "", ErrNotFound},
	} {
		r, rec, err := s.Open(t.Context(), tt.tenant, tt.id)
		if tt.err != nil {
			if !errors.Is(err, tt.err) {
				t.Errorf("%s of %s: %v", tt.id, tt.tenant, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all, err := ReadRange(r, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(all); string(got) != tt.want || err != nil || rec.Live != (tt.id == "live") {
			t.Errorf("%s: %q, %+v, %v", tt.id, got, rec, err)
		}
		_ = r.Close()
	}
}

func TestURIs(t *testing.T) {
	if id, ok := ParseURI(URI("0199c0de")); !ok || id != "0199c0de" {
		t.Errorf("got %q, %v", id, ok)
	}
	for _, bad := range []string{"", "toold://artifacts/", "toold://artifacts/a/b", "toold://artifacts/a?x", "/etc/passwd", "toold://artifacts/\x00", Scheme + strings.Repeat("a", 129)} {
		if id, ok := ParseURI(bad); ok {
			t.Errorf("%q is %q", bad, id)
		}
	}
}
