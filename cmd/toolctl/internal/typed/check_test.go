package typed

import (
	"encoding/json"
	"testing"
)

func TestWrongJSONIsToldInPlainWordsWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                  "",
		" {\"a\": [1, {}]}\n": "",
		``:                    "it is empty; want a JSON object, such as {}",
		`{"a"`:                "line 1, column 5: it ends there, but a bracket or a quote is still open",
		"{\n  \"é\": 'x'}":    `line 2, column 8: '\'' cannot stand here; want a value`,
		`{a: 1}`:              `line 1, column 2: 'a' cannot stand here; want a name in "double quotes"`,
		`{"a" 1}`:             `line 1, column 6: '1' cannot stand here; want a colon`,
		`{"a":1 "b":2}`:       `line 1, column 8: '"' cannot stand here; want a comma or }`,
		`{"a":[1 2]}`:         `line 1, column 9: '2' cannot stand here; want a comma or ]`,
		`{} {}`:               `line 1, column 4: '{' cannot stand here; want nothing more`,
		"{\"a\": \"x\ny\"}":   `line 1, column 9: '\n' cannot stand here; want a control character as \uXXXX`,
		`{"a": "\x"}`:         `line 1, column 9: 'x' cannot stand here; want one of \" \\ \/ \b \f \n \r \t \uXXXX`,
		`{"a": tru}`:          `line 1, column 10: '}' cannot stand here; want JSON`,
		`[1]`:                 `"[1]" is JSON, but no object; want {"argument": value}`,
		`null`:                `"null" is JSON, but no object; want {"argument": value}`,
		`"@args.json"`:        `"\"@args.json\"" is JSON, but no object; want {"argument": value}`,
		"\x00":                `line 1, column 1: '\x00' cannot stand here; want a value`,
	} {
		got := ""
		if err := CheckObject(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
}

func FuzzCheckObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"a`, "{\n", "\xff", `[`, `{"a":01}`, `null`, "{\"a\":\"\xff\"}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]json.RawMessage
		good := json.Unmarshal([]byte(text), &object) == nil && object != nil
		if err := CheckObject(text); (err == nil) != good {
			t.Errorf("%q: got %v, object %v", text, err, good)
		}
	})
}
