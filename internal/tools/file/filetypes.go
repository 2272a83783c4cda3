package file

import (
	"path"
	"slices"
)

// fileTypes names groups of files by the patterns of their names.
var fileTypes = map[string][]string{
	"c":          {"*.c", "*.h"},
	"cpp":        {"*.cc", "*.cpp", "*.cxx", "*.hh", "*.hpp", "*.hxx", "*.h", "*.inl"},
	"csharp":     {"*.cs"},
	"css":        {"*.css", "*.scss", "*.sass", "*.less"},
	"docker":     {"Dockerfile*", "*.dockerfile", "Containerfile*"},
	"go":         {"*.go"},
	"html":       {"*.html", "*.htm"},
	"java":       {"*.java"},
	"javascript": {"*.js", "*.jsx", "*.mjs", "*.cjs"},
	"json":       {"*.json", "*.jsonl", "*.ndjson"},
	"kotlin":     {"*.kt", "*.kts"},
	"make":       {"Makefile", "makefile", "GNUmakefile", "*.mk"},
	"markdown":   {"*.md", "*.markdown", "*.mdx"},
	"php":        {"*.php"},
	"protobuf":   {"*.proto"},
	"python":     {"*.py", "*.pyi"},
	"ruby":       {"*.rb", "Rakefile", "Gemfile", "*.gemspec"},
	"rust":       {"*.rs"},
	"shell":      {"*.sh", "*.bash", "*.zsh"},
	"sql":        {"*.sql"},
	"swift":      {"*.swift"},
	"text":       {"*.txt"},
	"toml":       {"*.toml"},
	"typescript": {"*.ts", "*.tsx", "*.mts", "*.cts"},
	"xml":        {"*.xml", "*.xsd", "*.xsl"},
	"yaml":       {"*.yaml", "*.yml"},
}

// isType says whether a file of that name is of the type.
func isType(kind, name string) bool {
	return slices.ContainsFunc(fileTypes[kind], func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
