package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

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

// addFlags defines --config and the flags of the settings named, of all where
// none is.
func addFlags(flags *pflag.FlagSet, names ...string) {
	flags.String("config", "", "YAML `file`; see toold config example")
	for _, s := range settings {
		switch {
		case s.flag == "", len(names) > 0 && !slices.Contains(names, s.flag):
		case s.flag == "workspace":
			flags.StringArray(s.flag, nil, s.usage)
		default:
			flags.String(s.flag, "", s.usage)
		}
	}
}

// databaseFlags say which database it is.
var databaseFlags = []string{"data-dir", "database-url"}

// load makes the configuration of flags, environment, file and defaults, in
// that order, and checks it. environ is as os.Environ gives it.
func load(flags *pflag.FlagSet, environ []string) (Config, error) {
	c := defaults()
	env, err := variables(environ)
	if err != nil {
		return c, err
	}
	path := env["TOOLD_CONFIG"]
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
		if v := env[s.env]; v != "" {
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

// notOurs are variables that are named like ours and say nothing to the daemon:
// those of toolctl and of this repository's tests, and the links that Kubernetes
// makes for a service named toold.
var notOurs = regexp.MustCompile(`^TOOLD_(ADDRESS|FULL|TEST_.*|PGTEST_.*|SERVICE_(HOST|PORT).*|PORT(_.*)?)$`)

// variables are those of the daemon, by name. One that is named so and means
// nothing is an error: a misspelt TOOLD_PROFILE must not be a wider one.
func variables(environ []string) (map[string]string, error) {
	known := []string{"TOOLD_CONFIG"}
	for _, s := range settings {
		known = append(known, s.env)
	}
	found := make(map[string]string)
	var wrong []error
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case slices.Contains(known, name):
			found[name] = value
		case strings.HasPrefix(name, "TOOLD_") && !notOurs.MatchString(name):
			wrong = append(wrong, fmt.Errorf("the environment has %s, which means nothing to toold%s", name, didYouMean(name, known)))
		}
	}
	return found, errors.Join(wrong...)
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
	if c.DatabaseURL = strings.TrimSpace(string(text)); c.DatabaseURL == "" {
		return fmt.Errorf("databaseUrlFile: %s is empty", c.DatabaseURLFile)
	}
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
			bad("metricsListen", "%q is neither host:port, such as %s, nor \"off\"", c.MetricsListen, anAddress(c.MetricsListen, "7434"))
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
	if scheme, _, ok := strings.Cut(c.DatabaseURL, "://"); (ok && scheme != "postgres" && scheme != "postgresql") || (!ok && c.DatabaseURL != "" && !strings.Contains(c.DatabaseURL, "=")) {
		bad("databaseUrl", "not a PostgreSQL connection string; give one such as postgres://user@host:5432/database")
	}
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
		return fmt.Errorf("%q is no host:port; give one such as %s", address, anAddress(address, "7433"))
	}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%q can be reached by other machines, and toold has no authentication yet: whoever connects could run commands; use 127.0.0.1 or [::1], and a tunnel such as ssh -L from elsewhere", address)
}

// anAddress is a good one that is near to what was given.
func anAddress(given, port string) string {
	if _, err := strconv.ParseUint(given, 10, 16); err == nil {
		port = given
	}
	return "127.0.0.1:" + port
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
