package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

// setting is a value that can also come from a flag or the environment.
type setting struct {
	flag  string // empty = no flag
	env   string
	usage string
	set   func(c *Config, values []string) error
}

func one(field func(*Config) *string) func(*Config, []string) error {
	return func(c *Config, values []string) error {
		*field(c) = values[len(values)-1]
		return nil
	}
}

// settings are in the order in which help shows them.
var settings = []setting{
	{"listen", "TOOLD_LISTEN", "loopback `address` of the gRPC API", one(func(c *Config) *string { return &c.Listen })},
	{"metrics-listen", "TOOLD_METRICS_LISTEN", "`address` of metrics, health and pprof; off for none", one(func(c *Config) *string { return &c.MetricsListen })},
	{"data-dir", "TOOLD_DATA_DIR", "`folder` of the database, artifacts and socket", one(func(c *Config) *string { return &c.DataDir })},
	{"workspace", "TOOLD_WORKSPACE", "`NAME=PATH` of a folder that calls may touch; a bare path is \"default\"; repeatable", setWorkspaces},
	{"database-url", "TOOLD_DATABASE_URL", "PostgreSQL `URL` instead of SQLite (a secret: prefer the environment)", one(func(c *Config) *string { return &c.DatabaseURL })},
	{"", "TOOLD_DATABASE_URL_FILE", "", one(func(c *Config) *string { return &c.DatabaseURLFile })},
	{"profile", "TOOLD_PROFILE", "what is allowed by default: `locked|standard|development|ci`", one(func(c *Config) *string { return &c.Profile })},
	{"policy", "TOOLD_POLICY", "policy `file`", one(func(c *Config) *string { return &c.Policy })},
	{"log-level", "TOOLD_LOG_LEVEL", "`debug|info|warn|error`", one(func(c *Config) *string { return &c.LogLevel })},
	{"log-format", "TOOLD_LOG_FORMAT", "`text|json`", one(func(c *Config) *string { return &c.LogFormat })},
}

func setWorkspaces(c *Config, values []string) error {
	c.Workspaces = make(map[string]string, len(values))
	for _, v := range values {
		name, path, ok := strings.Cut(v, "=")
		if !ok {
			name, path = defaultWorkspace, v
		}
		if _, twice := c.Workspaces[name]; twice {
			return fmt.Errorf("workspace %q is given twice", name)
		}
		c.Workspaces[name] = path
	}
	return nil
}

// defaultWorkspace is the workspace of calls that name none.
const defaultWorkspace = "default"

// addFlags defines the flags of the settings, and --config.
func addFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "YAML `file`; see toold config example")
	for _, s := range settings {
		switch s.flag {
		case "":
		case "workspace":
			flags.StringArray(s.flag, nil, s.usage)
		default:
			flags.String(s.flag, "", s.usage)
		}
	}
}

// load makes the configuration of flags, environment, file and defaults, in
// that order, and checks it.
func load(flags *pflag.FlagSet, env func(string) (string, bool)) (Config, error) {
	c := defaults()
	path, _ := env("TOOLD_CONFIG")
	if flags.Changed("config") {
		path, _ = flags.GetString("config")
	}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return c, fmt.Errorf("reading the configuration: %w", err)
		}
		if err := decode(text, &c); err != nil {
			return c, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, s := range settings {
		if v, ok := env(s.env); ok && v != "" {
			values := []string{v}
			if s.flag == "workspace" {
				values = strings.Split(v, ",")
			}
			if err := s.set(&c, values); err != nil {
				return c, fmt.Errorf("%s: %w", s.env, err)
			}
		}
		if s.flag == "" || !flags.Changed(s.flag) {
			continue
		}
		values, err := flags.GetStringArray(s.flag)
		if err != nil {
			values = []string{flags.Lookup(s.flag).Value.String()}
		}
		if err := s.set(&c, values); err != nil {
			return c, fmt.Errorf("--%s: %w", s.flag, err)
		}
	}
	if err := c.readSecrets(); err != nil {
		return c, err
	}
	return c, c.check()
}

// maxFile bounds what is parsed as a configuration, in bytes.
const maxFile = 256 << 10

// decode reads a file over what c holds. Errors name the line and do not quote
// the file, which may hold a secret.
func decode(text []byte, c *Config) error {
	if len(text) > maxFile {
		return fmt.Errorf("a configuration of %d bytes is none; the limit is %d", len(text), maxFile)
	}
	err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(c)
	if errors.Is(err, io.EOF) { // empty, or comments only
		return nil
	}
	if err == nil {
		return nil
	}
	if known := yaml.Error(nil); !errors.As(err, &known) {
		return locate(text, err)
	}
	return errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
}

// locate finds the value that err, which a type's own parser gave without a
// place, is about.
func locate(text []byte, err error) error {
	found := err
	walkConfig(reflect.ValueOf(defaults()), func(k configKey) {
		path, pathErr := yaml.PathString("$." + k.path)
		if pathErr != nil || k.kind.Kind() == reflect.Struct {
			return
		}
		node, nodeErr := path.ReadNode(bytes.NewReader(text))
		if nodeErr != nil {
			return
		}
		if valueErr := yaml.NodeToValue(node, reflect.New(k.kind).Interface()); valueErr != nil && valueErr.Error() == err.Error() {
			at := node.GetToken().Position
			found = fmt.Errorf("[%d:%d] %s: %w", at.Line, at.Column, k.path, err)
		}
	})
	return found
}

func (c *Config) readSecrets() error {
	if c.DatabaseURLFile == "" {
		return nil
	}
	if c.DatabaseURL != "" {
		return errors.New("databaseUrl and databaseUrlFile are both given; give one")
	}
	text, err := os.ReadFile(c.DatabaseURLFile)
	if err != nil {
		return fmt.Errorf("reading databaseUrlFile: %w", err)
	}
	c.DatabaseURL = strings.TrimSpace(string(text))
	return nil
}

var (
	workspaceName = regexp.MustCompile(`^[A-Za-z0-9_.:@/-]{1,128}$`)
	profiles      = []string{"", "locked", "standard", "development", "ci"}
	logFormats    = []string{"text", "json"}
	switches      = []string{"auto", "on", "off"}
)

// check says all that is wrong, a line each.
func (c *Config) check() error {
	var wrong []error
	bad := func(key, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if err := loopback(c.Listen); err != nil {
		bad("listen", "%v", err)
	}
	if c.MetricsListen != "off" {
		if _, _, err := net.SplitHostPort(c.MetricsListen); err != nil {
			bad("metricsListen", "%q is no host:port, and not \"off\"", c.MetricsListen)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Workspaces)) {
		if !workspaceName.MatchString(name) {
			bad("workspaces", "%q is no name; use letters, digits and _.:@/-", name)
		}
		if c.Workspaces[name] == "" {
			bad("workspaces", "%q has no path", name)
		}
	}
	oneOf := func(key, value string, of []string) {
		if !slices.Contains(of, value) {
			bad(key, "%q is none of %s", value, strings.TrimPrefix(strings.Join(of, ", "), ", "))
		}
	}
	oneOf("profile", c.Profile, profiles)
	oneOf("logFormat", c.LogFormat, logFormats)
	oneOf("reflection", c.Reflection, switches)
	if err := new(slog.Level).UnmarshalText([]byte(c.LogLevel)); err != nil {
		bad("logLevel", "%q is none of debug, info, warn, error", c.LogLevel)
	}
	c.checkNumbers(bad)
	return errors.Join(wrong...)
}

// loopback refuses an address that other machines can reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is no host:port", address)
	}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%q can be reached by other machines, and toold has no authentication yet: whoever connects could run commands; use 127.0.0.1 or [::1], and a tunnel such as ssh -L from elsewhere", address)
}

// absolute resolves a path of the configuration.
func absolute(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(home, rest)
	}
	return filepath.Abs(path)
}
