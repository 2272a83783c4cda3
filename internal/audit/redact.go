package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Mask gives arguments as they may be stored and shown: JSON text in which
// secrets are replaced by "hmac:" and 12 hex digits of their HMAC-SHA256 under
// key, so that equal secrets can be found again and none can be read.
//
// A secret is the value at one of the JSON pointers (RFC 6901), any value under a
// key that is named like one (password, api_key, Authorization …), and what looks
// like a known kind of token inside a string, object keys included. Arguments
// without any come back as they are, else with sorted keys. What is no JSON comes
// back as a JSON string, masked likewise.
//
// Of arguments over 16 KiB, strings over 2 KiB are kept as their first KiB and
// "…[N bytes, sha256 HEX]": a file's content has no place in a row.
func Mask(args json.RawMessage, pointers []string, key []byte) string {
	m := masker{key: key}
	suspicious := bytes.Contains(args, []byte(`\u`)) || anyOf(lower(args), triggers)
	long := len(args) > longArgs
	if !suspicious && !long && len(pointers) == 0 && json.Valid(args) {
		return string(args)
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		v = string(args)
	} else if _, err := d.Token(); err != io.EOF {
		v = string(args)
	}
	for _, p := range pointers {
		v = m.at(v, p)
	}
	if suspicious {
		v = m.walk(v)
	}
	if long {
		v = shorten(v)
	}
	return marshal(v)
}

// Sizes of what is shortened, in bytes.
const (
	longArgs   = 16 << 10
	longString = 2 << 10
	keptString = 1 << 10
)

func shorten(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > longString {
			return fmt.Sprintf("%s…[%d bytes, sha256 %x]", strings.ToValidUTF8(v[:keptString], ""), len(v), sha256.Sum256([]byte(v)))
		}
	case []any:
		for i := range v {
			v[i] = shorten(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = shorten(v[k])
		}
	}
	return v
}

func marshal(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return `"hmac:"` // cannot be: it was JSON a moment ago
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// masker masks under one key.
type masker struct{ key []byte }

const masked = "hmac:"

func (m *masker) hmac(secret string) string {
	if secret == "" || strings.HasPrefix(secret, masked) && len(secret) == len(masked)+12 {
		return secret
	}
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte(secret))
	return masked + hex.EncodeToString(h.Sum(nil)[:6])
}

// all masks a value as a whole: a string by its text, anything else by its JSON.
// null stays.
func (m *masker) all(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return m.hmac(v)
	default:
		return m.hmac(marshal(v))
	}
}

// at masks what a pointer points at, if anything.
func (m *masker) at(v any, pointer string) any {
	if pointer == "" {
		return m.all(v)
	}
	if pointer[0] != '/' {
		return v
	}
	token, rest := pointer[1:], ""
	if i := strings.IndexByte(token, '/'); i >= 0 {
		token, rest = token[:i], token[i:]
	}
	token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	switch v := v.(type) {
	case map[string]any:
		if in, ok := v[token]; ok {
			v[token] = m.at(in, rest)
		}
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) {
			v[i] = m.at(v[i], rest)
		}
	}
	return v
}

// walk masks by names and shapes, everywhere.
func (m *masker) walk(v any) any {
	switch v := v.(type) {
	case string:
		return m.text(v)
	case []any:
		for i := range v {
			v[i] = m.walk(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, in := range v {
			if secretName(k, in) {
				in = m.all(in)
			} else {
				in = m.walk(in)
			}
			out[m.text(k)] = in
		}
		return out
	}
	return v
}

// names are what a key contains, in lower case and without "-", "_" and " ", when
// its value is a secret.
var names = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "accountkey",
	"authorization", "credential", "cookie",
}

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// secretName spares numbers and booleans under names of counts ("max_tokens").
func secretName(key string, v any) bool {
	k := separators.Replace(strings.ToLower(key))
	if k == "pwd" || k == "auth" || k == "pin" {
		return true
	}
	if !anyOf([]byte(k), names) {
		return false
	}
	switch v.(type) {
	case json.Number, bool:
		return !strings.Contains(k, "token")
	}
	return true
}

// shape is one kind of secret in a string: what the lower-cased string contains
// if there is any, and the pattern, whose last group is the secret.
type shape struct {
	triggers []string
	pattern  *regexp.Regexp
}

const secretWord = `password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|accountkey|private[_-]?key`

var secretWords = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "token", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey",
	"accountkey", "private_key", "private-key", "privatekey",
}

var shapes = []shape{
	{[]string{"private key-----"}, regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$))`)},
	{[]string{"eyj"}, regexp.MustCompile(`\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)},
	{[]string{"akia", "asia"}, regexp.MustCompile(`\b((?:AKIA|ASIA)[0-9A-Z]{16})\b`)},
	{[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`)},
	{[]string{"glpat-"}, regexp.MustCompile(`\b(glpat-[A-Za-z0-9_-]{16,})`)},
	{[]string{"xox"}, regexp.MustCompile(`\b(xox[a-z]-[A-Za-z0-9-]{10,})`)},
	{[]string{"sk-", "sk_", "rk_"}, regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,})`)},
	{[]string{"aiza"}, regexp.MustCompile(`\b(AIza[0-9A-Za-z_-]{30,})`)},
	{[]string{"npm_", "hf_"}, regexp.MustCompile(`\b((?:npm|hf)_[A-Za-z0-9]{30,})`)},
	{[]string{"bearer", "basic"}, regexp.MustCompile(`(?i)\b(?:bearer|authorization:\s*basic)\s+([A-Za-z0-9._~+/=-]{8,})`)},
	{[]string{"://"}, regexp.MustCompile(`://[^/\s:@"']*:([^/\s@"']+)@`)},
	{[]string{"-u"}, regexp.MustCompile(`(?:^|\s)(?:-u|--user)[\s=]*["']?[^\s:"']+:([^\s"']+)`)},
	{secretWords, regexp.MustCompile(`(?i)(?:` + secretWord + `)["']?\s*[=:]\s*["']?([^\s"'&;,]{3,})`)},
	{secretWords, regexp.MustCompile(`(?i)-[\w-]*(?:` + secretWord + `)\s+["']?([^\s"'&;,]{3,})`)},
}

// triggers are short: one of them is in everything that the names and the shapes
// look for, so that arguments without any need no closer look.
var triggers = []string{
	"pass", "pwd", "secret", "token", "key", "auth", "credential", "cookie", "pin", "bearer", "basic", "eyj", "akia", "asia", "aiza",
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "sk-", "k_", "npm_", "hf_", "://", "-u",
}

// text masks what looks like a secret inside a string.
func (m *masker) text(s string) string {
	low := lower([]byte(s))
	for _, sh := range shapes {
		if anyOf(low, sh.triggers) {
			s = m.replace(sh.pattern, s)
		}
	}
	return s
}

func (m *masker) replace(p *regexp.Regexp, s string) string {
	found := p.FindAllStringSubmatchIndex(s, -1)
	if found == nil {
		return s
	}
	var b strings.Builder
	last := 0
	for _, f := range found {
		from, to := f[len(f)-2], f[len(f)-1]
		b.WriteString(s[last:from])
		b.WriteString(m.hmac(s[from:to]))
		last = to
	}
	b.WriteString(s[last:])
	return b.String()
}

func anyOf(s []byte, words []string) bool {
	for _, w := range words {
		if bytes.Contains(s, []byte(w)) {
			return true
		}
	}
	return false
}

// lower is an ASCII-lower-cased copy.
func lower(s []byte) []byte {
	out := make([]byte, len(s))
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		out[i] = c
	}
	return out
}
