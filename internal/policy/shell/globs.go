package shell

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/toold/toold/internal/tool"
)

// Protected are the files that decide what runs later, or hold secrets: globs on
// a path's end, case folded. To write one is asked for in every profile,
// whichever tool does it.
var Protected = []string{
	"**/.git", "**/.git/**", "**/.gitmodules", "**/rust-toolchain", "**/rust-toolchain.toml",
	"**/.github/workflows/**", "**/.gitlab-ci.yml", "**/.circleci/**", "**/jenkinsfile", "**/.husky/**", "**/.pre-commit-config.yaml",
	"**/.vscode/**", "**/.idea/**", "**/.claude/**", "**/.cursor/**", "**/.mcp.json", "**/.envrc",
	"**/.bashrc", "**/.bash_profile", "**/.bash_login", "**/.bash_logout", "**/.profile", "**/.zshrc", "**/.zshenv", "**/.zprofile", "**/.zlogin",
	"**/.config/fish/**", "**/.config/autostart/**", "**/.config/systemd/**", "**/.config/git/**", "**/.gitconfig", "**/.npmrc", "**/.yarnrc*", "**/.pypirc", "**/.netrc",
	"**/.env", "**/.env.*", "**/.ssh/**", "**/.gnupg/**", "**/.aws/**", "**/.kube/**", "**/.docker/config.json", "**/*.pem", "**/*.key", "**/id_rsa*", "**/id_ed25519*",
}

var protected = NewGlobs(Protected...)

// secrets are the places whose contents must not be printed or sent.
var secrets = NewGlobs(
	"**/.env", "**/.env.*", "**/.ssh/id_*", "**/.ssh/*_key", "**/.gnupg/**", "**/.aws/credentials", "**/.kube/config", "**/.docker/config.json", "**/.netrc", "**/.pypirc", "**/.npmrc",
	"**/.git-credentials", "**/.config/gh/hosts.yml", "**/.config/gcloud/**", "**/*.pem", "**/*.key", "**/id_rsa", "**/id_ed25519", "/proc/*/environ", "/etc/shadow", "/etc/gshadow",
)

// Secret is what command safety has against printing the file at an absolute
// path, links resolved. ok is false where it has nothing.
func Secret(path string) (f tool.Finding, ok bool) {
	if !secrets.Match(path) {
		return tool.Finding{}, false
	}
	a := newAnalyser(Options{})
	a.find("secret", quote(path))
	return a.findings[0], true
}

// Globs match paths, letter case folded. "**" stands for any number of folders.
type Globs []glob

// glob is a pattern with a piece of text that each match of it has in it: most
// paths are told apart by that alone.
type glob struct{ pattern, piece string }

// NewGlobs reads patterns; they must be valid (doublestar.ValidatePattern).
func NewGlobs(patterns ...string) Globs {
	out := make(Globs, len(patterns))
	for i, p := range patterns {
		longest := ""
		for _, piece := range strings.FieldsFunc(p, func(r rune) bool { return strings.ContainsRune("*?[]{}", r) }) {
			if piece = strings.Trim(piece, "/"); len(piece) > len(longest) {
				longest = piece
			}
		}
		out[i] = glob{pattern: strings.ToLower(p), piece: strings.ToLower(longest)}
	}
	return out
}

// Match says whether a "/"-separated path matches one of the patterns.
func (gs Globs) Match(p string) bool {
	p = strings.ToLower(p)
	for _, g := range gs {
		if !strings.Contains(p, g.piece) {
			continue
		}
		if ok, err := doublestar.Match(g.pattern, p); ok && err == nil {
			return true
		}
	}
	return false
}

// LinkOutside is the finding against changing or deleting what lies at an
// absolute path outside the workspace, reached through a link in it.
func LinkOutside(path string) tool.Finding {
	a := newAnalyser(Options{})
	a.find("link_outside", quote(path))
	return a.findings[0]
}
