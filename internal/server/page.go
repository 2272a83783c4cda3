package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/toold/toold/internal/exec"
)

// pageToken is where the next page starts. It names no right: what a page shows
// is decided anew by who asks. It is bound to the list and its filters, so that
// a token of another list is refused instead of skipping something.
type pageToken struct {
	List  string `json:"l"`
	After string `json:"a"`
}

// page is a page of a list as it was asked for.
type page struct {
	list  string
	after string // key of the last item of the page before; empty = first page
	size  int
}

// pager is what every list request has.
type pager interface {
	proto.Message
	GetPageSize() int32
	GetPageToken() string
}

// newPage reads a list request's page. salt is what else a token depends on,
// such as a revision. key says what the key of an item looks like.
func newPage(request pager, salt string, size int, key func(string) bool) (page, error) {
	if field := fieldWithNUL(request.ProtoReflect()); field != "" {
		return page{}, &exec.Error{Kind: exec.KindInvalid, Reason: reasonMalformed, Field: field, Message: field + " holds a NUL byte"}
	}
	filters := proto.Clone(request).ProtoReflect()
	fields := filters.Descriptor().Fields()
	filters.Clear(fields.ByName("page_size"))
	filters.Clear(fields.ByName("page_token"))
	sum := sha256.Sum256(append(marshal(filters.Interface()), salt...))
	p := page{list: string(filters.Descriptor().Name()) + ":" + hex.EncodeToString(sum[:8]), size: size}
	if n := request.GetPageSize(); n > 0 {
		p.size = int(n)
	}
	if request.GetPageToken() == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(request.GetPageToken())
	var t pageToken
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil || t.List != p.list || !key(t.After) {
		return page{}, &exec.Error{
			Kind: exec.KindInvalid, Reason: reasonBadPageToken, Field: "page_token",
			Message: "this is no token of this list with these filters; start from the first page",
		}
	}
	p.after = t.After
	return p, nil
}

// isID reports whether a key is an id as the stores keep them.
func isID(key string) bool { return len(key) == 36 && uuid.Validate(key) == nil }

// isName reports whether a key can be a tool's name.
func isName(key string) bool { return key != "" }

// fieldWithNUL names a field of m whose text no store can look for, or nothing.
func fieldWithNUL(m protoreflect.Message) (name string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Kind() == protoreflect.StringKind:
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if strings.ContainsRune(k.String()+v.String(), 0) {
					name = string(f.Name())
				}
				return name == ""
			})
		case f.Kind() == protoreflect.StringKind && !f.IsList():
			if strings.ContainsRune(v.String(), 0) {
				name = string(f.Name())
			}
		}
		return name == ""
	})
	return name
}

// next is the token of the page after the one that ends with the given key.
func (p page) next(after string) string {
	raw, _ := json.Marshal(pageToken{List: p.list, After: after}) // two strings always encode
	return base64.RawURLEncoding.EncodeToString(raw)
}
