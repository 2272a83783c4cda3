package audit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// canary is a word that no masked text may contain.
const canary = "C4n4ryS3cretV4lue0123456789abcdefghijkl"

var testKey = []byte("key")

func TestMask(t *testing.T) {
	for _, c := range []struct {
		name, args string
		pointers   []string
		want       string // empty = only that the canary is gone
	}{
		{name: "nothing to hide", args: `{"path":"a/b.go","n":1.50}`, want: `{"path":"a/b.go","n":1.50}`},
		{name: "a count of tokens", args: `{"max_tokens":100}`, want: `{"max_tokens":100}`},
		{name: "words that only sound like it", args: `{"command":"rg token internal/ && man basic authentication"}`, want: `{"command":"rg token internal/ && man basic authentication"}`},
		{name: "a pointer", args: `{"a":{"b/c":["x","` + canary + `"]}}`, pointers: []string{"/a/b~1c/1"}, want: `{"a":{"b/c":["x","hmac:441d06181900"]}}`},
		{name: "a pointer to an object", args: `{"a":{"b":"` + canary + `"}}`, pointers: []string{"/a"}},
		{name: "a pointer to nothing", args: `{"a":1}`, pointers: []string{"/b", "/a/0", "x"}, want: `{"a":1}`},
		{name: "the whole", args: `"` + canary + `"`, pointers: []string{""}},
		{name: "password", args: `{"password":"` + canary + `"}`},
		{name: "a numeric pin", args: `{"PIN":123456789}`, want: `{"PIN":"hmac:4fc1aae3e347"}`},
		{name: "in an environment", args: `{"env":{"GITHUB_TOKEN":"` + canary + `"}}`},
		{name: "camel case", args: `{"apiKey":"` + canary + `"}`},
		{name: "nested", args: `{"credentials":[{"x":"` + canary + `"}]}`},
		{name: "header", args: `{"headers":{"Authorization":"` + canary + `"}}`},
		{name: "an escaped key", args: `{"\u0070assword":"` + canary + `"}`},
		{name: "bearer", args: `{"command":"curl -H 'Authorization: Bearer ` + canary + `' x"}`},
		{name: "curl -u", args: `{"command":"curl -u me:` + canary + ` https://x"}`},
		{name: "userinfo", args: `{"url":"https://me:` + canary + `@host/x"}`},
		{name: "an assignment", args: `{"command":"PGPASSWORD=` + canary + ` psql"}`},
		{name: "a flag", args: `{"command":"login --password ` + canary + `"}`},
		{name: "GitHub", args: `{"x":"ghp_` + canary + `"}`},
		{name: "fine-grained GitHub", args: `{"x":"github_pat_` + canary + `"}`},
		{name: "GitLab", args: `{"x":"glpat-` + canary + `"}`},
		{name: "Slack", args: `{"x":"xoxb-` + canary + `"}`},
		{name: "a model provider", args: `{"x":"sk-` + canary + `"}`},
		{name: "a payment provider", args: `{"x":"sk_live_` + canary + `"}`},
		{name: "Google", args: `{"x":"AIza` + canary + `"}`},
		{name: "npm", args: `{"x":"npm_` + canary + `"}`},
		{name: "JWT", args: `{"x":"eyJhbGciOiJIUzI1NiJ9.` + canary + `.` + canary + `"}`},
		{name: "PEM", args: `{"x":"-----BEGIN RSA PRIVATE KEY-----\n` + canary + `\n-----END RSA PRIVATE KEY-----"}`},
		{name: "half a PEM", args: `{"x":"-----BEGIN PRIVATE KEY-----\n` + canary + `"}`},
		{name: "AWS", args: `{"x":"AKIAIOSFODNN7EXAMPLE"}`, want: `{"x":"hmac:db9adb48a126"}`},
		{name: "in a key", args: `{"ghp_` + canary + `":1}`},
		{name: "no JSON", args: `password=` + canary},
		{name: "two values", args: `{} {"password":"` + canary + `"}`},
		{name: "nothing", args: ``, want: `""`},
	} {
		got := Mask(json.RawMessage(c.args), c.pointers, testKey)
		switch {
		case strings.Contains(got, canary):
			t.Errorf("%s: the secret is still there: %s", c.name, got)
		case !json.Valid([]byte(got)):
			t.Errorf("%s: no JSON: %s", c.name, got)
		case c.want != "" && got != c.want:
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		case c.want == "" && !strings.Contains(got, "hmac:"):
			t.Errorf("%s: nothing says that something was masked: %s", c.name, got)
		}
	}
}

func TestTriggersCoverEverything(t *testing.T) {
	words := append([]string{"pwd", "auth", "pin"}, names...)
	for _, s := range shapes {
		words = append(words, s.triggers...)
	}
	for _, w := range words {
		if !anyOf([]byte(w), triggers) {
			t.Errorf("no trigger is in %q", w)
		}
	}
}

func TestEqualSecretsCanBeMatched(t *testing.T) {
	a := Mask(json.RawMessage(`{"password":"`+canary+`"}`), nil, testKey)
	b := Mask(json.RawMessage(`{"command":"x --password=`+canary+`"}`), nil, testKey)
	other := Mask(json.RawMessage(`{"password":"`+canary+`"}`), nil, []byte("another tenant's"))
	sum := a[strings.Index(a, "hmac:"):][:17]
	if !strings.Contains(b, sum) || strings.Contains(other, sum) {
		t.Errorf("%s\n%s\n%s", a, b, other)
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"password":"x"}`, `[[["Bearer abcdefgh"]]]`, "\xff", `"\ud800"`, `{"a":{"token":{"b":null}}}`, `1e999`} {
		f.Add(s, "/a")
	}
	f.Fuzz(func(t *testing.T, args, pointer string) {
		got := Mask(json.RawMessage(args), []string{pointer}, testKey)
		if !json.Valid([]byte(got)) {
			t.Fatalf("no JSON: %q", got)
		}
		// A value under a secret name never survives, whatever surrounds it.
		if v, err := json.Marshal(args); err == nil {
			with := `{"password":"` + canary + `","x":` + string(v) + `}`
			if strings.Contains(Mask(json.RawMessage(with), nil, testKey), canary) && !strings.Contains(args, canary) {
				t.Fatalf("the secret survived beside %q", args)
			}
		}
	})
}

func BenchmarkMask(b *testing.B) {
	args := json.RawMessage(`{"file_path":"internal/audit/log.go","limit":2000,"offset":100}`)
	b.SetBytes(int64(len(args)))
	for b.Loop() {
		Mask(args, nil, testKey)
	}
}

func TestMaskKeepsLongContentOutOfTheRow(t *testing.T) {
	content := strings.Repeat("line of text\n", 4000)
	args, err := json.Marshal(map[string]any{"path": "a.txt", "content": content, "password": "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	got := Mask(args, nil, []byte("key"))
	var v map[string]string
	if err := json.Unmarshal([]byte(got), &v); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	if v["path"] != "a.txt" || len(got) > 4<<10 || !strings.HasPrefix(v["content"], "line of text\n") || !strings.Contains(v["content"], sum) || strings.Contains(got, "hunter2") {
		t.Errorf("got %.200s… of %d bytes", got, len(got))
	}
}
