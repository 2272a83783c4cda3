package typed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CheckObject says in plain words, and where, why text is not one JSON object;
// nil when it is one.
func CheckObject(text string) error {
	var object map[string]json.RawMessage
	err := json.Unmarshal([]byte(text), &object)
	syntax := (*json.SyntaxError)(nil)
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("it is empty; want a JSON object, such as {}")
	case errors.As(err, &syntax):
		return syntaxError(text, syntax)
	case err != nil || object == nil:
		return fmt.Errorf(`%s is JSON, but no object; want {"argument": value}`, show(strings.TrimSpace(text)))
	}
	return nil
}

// expected are encoding/json's words for where it was, and what may stand there.
var expected = []struct{ after, want string }{
	{"looking for beginning of value", "a value"},
	{"looking for beginning of object key string", `a name in "double quotes"`},
	{"after object key:value pair", "a comma or }"},
	{"after object key", "a colon"},
	{"after array element", "a comma or ]"},
	{"after top-level value", "nothing more"},
	{"in string escape code", `one of \" \\ \/ \b \f \n \r \t \uXXXX`},
	{"in string literal", `a control character as \uXXXX`},
	{"in numeric literal", "a digit"},
	{"in exponent of numeric literal", "a digit"},
	{"after decimal point in numeric literal", "a digit"},
}

func syntaxError(text string, e *json.SyntaxError) error {
	said := e.Error()
	if strings.HasPrefix(said, "unexpected end") {
		return fmt.Errorf("%s: it ends there, but a bracket or a quote is still open", position(text, len(text)))
	}
	at := max(0, int(e.Offset)-1) // Offset counts the byte that was wrong
	r, _ := utf8.DecodeRuneInString(text[at:])
	want := "want JSON"
	for _, x := range expected {
		if strings.HasSuffix(said, x.after) {
			want = "want " + x.want
			break
		}
	}
	return fmt.Errorf("%s: %s cannot stand here; %s", position(text, at), strconv.QuoteRune(r), want)
}

// position is where a byte is, as editors count.
func position(text string, at int) string {
	before := text[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}
