package main

import (
	_ "embed"
	"time"
)

// source is this file: the doc comments of Config are what `toold config
// example` and docs/configuration.md say.
//
//go:embed config.go
var source string

// Config is all that can be set. A value comes from the flag, else the
// environment, else the file, else the default here. A key that is not known is
// an error.
type Config struct {
	// Address of the gRPC API, host:port. There is no authentication yet, so only
	// a loopback address is taken. Flag --listen, environment TOOLD_LISTEN.
	Listen string `yaml:"listen"`
	// Address of /metrics, /healthz, /readyz and /debug/pprof over HTTP; "off"
	// for none. Flag --metrics-listen, environment TOOLD_METRICS_LISTEN.
	MetricsListen string `yaml:"metricsListen"`
	// Folder of the database, the artifacts, the key that masks secrets and the
	// Unix socket toold.sock. Made with mode 0700. Empty: toold in
	// $XDG_DATA_HOME, else ~/.local/share/toold. Flag --data-dir, environment
	// TOOLD_DATA_DIR.
	DataDir string `yaml:"dataDir"`
	// Folders that calls may touch, by name; calls that name none get "default".
	// Empty: the current folder as "default", unless it is /, the home folder or
	// one that holds the data folder. Flag --workspace NAME=PATH (repeatable; a
	// bare path is "default"), environment TOOLD_WORKSPACE (several separated by
	// commas). A folder has one name.
	Workspaces map[string]string `yaml:"workspaces"`
	// PostgreSQL connection string; empty: SQLite in the data folder. It holds a
	// secret: prefer the environment or a file. Flag --database-url, environment
	// TOOLD_DATABASE_URL.
	DatabaseURL string `yaml:"databaseUrl"`
	// File that holds the connection string. Environment TOOLD_DATABASE_URL_FILE.
	DatabaseURLFile string `yaml:"databaseUrlFile"`
	// What is allowed where no rule matches: locked, standard, development or ci.
	// Empty: the policy file's, else development. Flag --profile, environment
	// TOOLD_PROFILE.
	Profile string `yaml:"profile"`
	// Policy file: a profile and rules, in YAML. It must be outside every
	// workspace. Flag --policy, environment TOOLD_POLICY.
	Policy string `yaml:"policy"`
	// What is logged: debug, info, warn or error. Flag --log-level, environment
	// TOOLD_LOG_LEVEL.
	LogLevel string `yaml:"logLevel"`
	// Form of the log on standard error: text or json. Flag --log-format,
	// environment TOOLD_LOG_FORMAT.
	LogFormat string `yaml:"logFormat"`
	// Name of this daemon in the audit log. Empty: the host's name.
	Replica string `yaml:"replica"`
	// Whether the API describes itself to whoever asks (gRPC reflection): on, off,
	// or auto, which is on without a database URL.
	Reflection string `yaml:"reflection"`
	// How long running calls may go on after SIGTERM; then they end INTERRUPTED. 0:
	// they end at once.
	DrainTimeout time.Duration `yaml:"drainTimeout"`
	// How long a stream may be silent before a heartbeat, where the client has no
	// wish of its own; at least 5s.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// How long a client may leave its stream unread before it is cut.
	SendTimeout time.Duration `yaml:"sendTimeout"`
	// What one caller can ask for; told by GetServerInfo. None can be 0: there
	// is always a limit.
	Limits LimitsConfig `yaml:"limits"`
	// How command lines are run.
	Commands CommandsConfig `yaml:"commands"`
	// How long things are kept.
	Retention RetentionConfig `yaml:"retention"`
}

// LimitsConfig bounds batches and calls.
type LimitsConfig struct {
	// Calls of one batch.
	CallsPerBatch int `yaml:"callsPerBatch"`
	// Bytes of one call's arguments.
	ArgumentsBytes Size `yaml:"argumentsBytes"`
	// Batches that run at once in the daemon.
	RunningBatches int `yaml:"runningBatches"`
	// READ_ONLY calls of one batch that run at once, where the batch does not say.
	ParallelReads int `yaml:"parallelReads"`
	// Calls that run at once in the daemon.
	ParallelCalls int `yaml:"parallelCalls"`
	// Longest run time that a call may ask for.
	CallTimeout time.Duration `yaml:"callTimeout"`
	// Time that a batch has when it does not say.
	BatchTimeout time.Duration `yaml:"batchTimeout"`
	// Longest time that a batch may ask for.
	MaxBatchTimeout time.Duration `yaml:"maxBatchTimeout"`
	// Binary output given inline; more is an artifact.
	InlineBytes Size `yaml:"inlineBytes"`
	// Output kept of one call; over it the call ends FAILED/OUTPUT_CAPPED.
	CaptureBytes Size `yaml:"captureBytes"`
	// How long a batch that nobody follows goes on starting calls.
	UnreadGrace time.Duration `yaml:"unreadGrace"`
}

// CommandsConfig says how command lines are run.
type CommandsConfig struct {
	// Absolute path of a bash.
	Shell string `yaml:"shell"`
	// Variables of the daemon's environment that commands get, besides PATH, HOME,
	// LANG and TMPDIR.
	PassEnv []string `yaml:"passEnv"`
	// Processor time of each process. 0: no limit but the system's.
	CPU time.Duration `yaml:"cpu"`
	// Address space of each process. 0: no limit but the system's.
	Memory Size `yaml:"memory"`
	// Largest file that a process may write. 0: no limit but the system's.
	FileSize Size `yaml:"fileSize"`
	// Files that a process may have open. 0: no limit but the system's.
	OpenFiles int `yaml:"openFiles"`
	// Processes and threads of the daemon's user. 0: no limit but the system's.
	Processes int `yaml:"processes"`
	// Time between SIGTERM and SIGKILL when a command is stopped.
	Grace time.Duration `yaml:"grace"`
}

// RetentionConfig says how long things are kept.
type RetentionConfig struct {
	// Requests and events of batches that ended, for AttachBatch and GetBatch.
	Events time.Duration `yaml:"events"`
	// Request ids: for so long the same one never runs twice.
	Requests time.Duration `yaml:"requests"`
}

// defaults is the configuration that nobody has touched.
func defaults() Config {
	return Config{
		Listen:        "127.0.0.1:7433",
		MetricsListen: "127.0.0.1:7434",
		LogLevel:      "info",
		LogFormat:     "text",
		Reflection:    "auto",
		DrainTimeout:  20 * time.Second,
		Heartbeat:     15 * time.Second,
		SendTimeout:   30 * time.Second,
		Limits: LimitsConfig{
			CallsPerBatch:   256,
			ArgumentsBytes:  1 << 20,
			RunningBatches:  256,
			ParallelReads:   10,
			ParallelCalls:   64,
			CallTimeout:     time.Hour,
			BatchTimeout:    time.Hour,
			MaxBatchTimeout: 24 * time.Hour,
			InlineBytes:     256 << 10,
			CaptureBytes:    4 << 30,
			UnreadGrace:     2 * time.Minute,
		},
		Commands: CommandsConfig{Shell: "/bin/bash", Grace: 2 * time.Second},
		Retention: RetentionConfig{
			Events:   24 * time.Hour,
			Requests: 7 * 24 * time.Hour,
		},
	}
}
