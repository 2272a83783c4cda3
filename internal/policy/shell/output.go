package shell

import (
	"encoding/base64"
	"encoding/hex"
	"path"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// wideFormat finds a field width that would make printf's output large.
var wideFormat = regexp.MustCompile(`%[^a-zA-Z%]*([0-9]{3}|\*)`)

// output gives what a command prints, where that is a plain function of its
// words and its input; else unknown.
func (sh *state) output(c *call) value {
	in := value{}
	if c.in != nil {
		in = *c.in
	}
	args := c.args
	for _, v := range args {
		if !v.known() && c.name != "echo" && c.name != "find" {
			return unknown
		}
	}
	var text string
	ok := false
	switch c.name {
	case "echo":
		return echo(args)
	case "true", "test", ":":
		return value{}
	case "pwd":
		vs, _ := sh.variable("PWD")
		return vs[0]
	case "which":
		if len(args) == 1 {
			return literal(base(args[0].text))
		}
	case "basename":
		if len(args) == 1 {
			return literal(path.Base(args[0].text))
		}
	case "cat", "tee":
		if len(args) == 0 || c.name == "tee" {
			return in
		}
	case "find":
		return sh.found(args)
	case "printf":
		text, ok = formatted(args)
	default:
		if f, found := decoders[c.name]; found && !strings.Contains(in.text, hole) {
			text, ok = f(texts(args), in.text)
		}
	}
	if !ok {
		return unknown
	}
	return literal(strings.ReplaceAll(text, hole, "\n")).capped()
}

func texts(vs []value) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = v.text
	}
	return out
}

func echo(args []value) value {
	escapes, newline := false, "\n"
	for len(args) > 0 && args[0].known() && len(args[0].text) > 1 && args[0].text[0] == '-' && strings.Trim(args[0].text[1:], "neE") == "" {
		escapes = escapes || strings.Contains(args[0].text, "e")
		if strings.Contains(args[0].text, "n") {
			newline = ""
		}
		args = args[1:]
	}
	v := joined(args, " ")
	if escapes && v.known() {
		v.text, _, _ = expand.Format(nil, v.text, nil)
		v.text = strings.ReplaceAll(v.text, hole, "")
	}
	v.text += newline
	return v.capped()
}

func formatted(args []value) (string, bool) {
	if len(args) > 0 && args[0].is("--") {
		args = args[1:]
	}
	if len(args) == 0 || wideFormat.MatchString(args[0].text) {
		return "", false
	}
	rest := texts(args[1:])
	var b strings.Builder
	for {
		s, n, err := expand.Format(nil, args[0].text, append([]string{}, rest...))
		if err != nil || b.Len() > maxValue {
			return "", false
		}
		b.WriteString(s)
		if rest = rest[min(n, len(rest)):]; n == 0 || len(rest) == 0 {
			return b.String(), true
		}
	}
}

// decoders are the programs that text is hidden behind on its way to a shell.
var decoders = map[string]func(args []string, in string) (string, bool){
	"base64": func(args []string, in string) (string, bool) {
		if len(args) != 1 || (args[0] != "-d" && args[0] != "-D" && !strings.HasPrefix("--decode", args[0])) {
			return "", false
		}
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(in), ""))
		return string(b), err == nil
	},
	"xxd": func(args []string, in string) (string, bool) {
		if all := strings.Join(args, ""); !strings.Contains(all, "r") || !strings.Contains(all, "p") {
			return "", false
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(in), ""))
		return string(b), err == nil
	},
	"rev": func(args []string, in string) (string, bool) {
		lines := strings.Split(in, "\n")
		for i, l := range lines {
			r := []rune(l)
			for a, b := 0, len(r)-1; a < b; a, b = a+1, b-1 {
				r[a], r[b] = r[b], r[a]
			}
			lines[i] = string(r)
		}
		return strings.Join(lines, "\n"), len(args) == 0
	},
	"tr": translate,
	"tac": func(args []string, in string) (string, bool) {
		return in, len(args) == 0 && strings.Count(in, "\n") <= 1
	},
}

// translate is tr FROM TO and tr -d SET, for plain characters and ranges.
func translate(args []string, in string) (string, bool) {
	if len(args) != 2 {
		return "", false
	}
	if args[0] == "-d" {
		set := string(ranges(args[1]))
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(set, r) {
				return -1
			}
			return r
		}, in), true
	}
	from, to := ranges(args[0]), ranges(args[1])
	if len(to) == 0 || strings.HasPrefix(args[0], "-") || strings.Contains(args[0], "[:") {
		return "", false
	}
	return strings.Map(func(r rune) rune {
		for i := len(from) - 1; i >= 0; i-- {
			if from[i] == r {
				return to[min(i, len(to)-1)]
			}
		}
		return r
	}, in), true
}

// ranges spells out a-z in a set; one of more than 256 characters is cut.
func ranges(set string) (out []rune) {
	set, _, _ = expand.Format(nil, set, nil)
	r := []rune(set)
	for i := 0; i < len(r) && len(out) < 256; i++ {
		if i+2 < len(r) && r[i+1] == '-' && r[i+2] >= r[i] && r[i+2]-r[i] < 256 {
			for c := r[i]; c <= r[i+2]; c++ {
				out = append(out, c)
			}
			i += 2
			continue
		}
		out = append(out, r[i])
	}
	return out
}
