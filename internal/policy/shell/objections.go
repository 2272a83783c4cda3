package shell

import (
	"strconv"
	"strings"

	"github.com/toold/toold/internal/tool"
)

// objection is one kind of thing that command safety has against a command.
type objection struct {
	tier    tool.Tier
	reason  string // what would happen
	suggest string // what would be accepted instead
}

const (
	never = tool.TierCatastrophic
	ask   = tool.TierDangerous
)

// objections are all there are, by the last part of their policy id.
var objections = map[string]objection{
	"delete_root":    {never, "deletes the root of a system tree, a home directory, the workspace or its repository", "name the files inside the workspace that should go"},
	"open_root":      {never, "changes modes or owners of a whole system tree or home", "change single files inside the workspace"},
	"device_write":   {never, "writes to a disk or to memory directly", "write to a file inside the workspace"},
	"format":         {never, "formats or repartitions a disk", "work on an image file inside the workspace with a tool that cannot reach devices"},
	"fork_bomb":      {never, "starts processes without end", "start a fixed number of processes and wait for them"},
	"privilege":      {never, "takes the rights of another user", "run the command without it; what needs root is for a human to do"},
	"kernel_trigger": {never, "makes the kernel reboot, crash or power off at once", ""},
	"account_file":   {never, "writes the files that say who may do what on this machine", ""},
	"drop_head":      {never, "removes the repository's HEAD", "use git switch or git branch"},

	"unparsable":           {ask, "cannot be understood as a shell command", "write it as plain commands, one at a time"},
	"unknown_code":         {ask, "runs code that is not known beforehand", "write the command out literally"},
	"remote_code":          {ask, "runs code that comes from somewhere else", "save it to a file, read it, then run the file"},
	"reverse_shell":        {ask, "gives a shell to another machine", ""},
	"network_redirect":     {ask, "sends or receives over a raw network connection", "use curl with the host in sight"},
	"hidden_program":       {ask, "runs a program named in an option or in configuration", "run that program by itself"},
	"injected_environment": {ask, "changes what later programs load or run", "leave that variable alone"},
	"redefined_program":    {ask, "makes a known name mean another program", "call the program by its own name"},
	"delete_outside":       {ask, "deletes or moves what lies outside the workspace", "delete inside the workspace only"},
	"delete_unknown":       {ask, "deletes what cannot be told beforehand", "name the files literally, relative to the workspace"},
	"delete_workspace":     {ask, "deletes everything in the workspace", "name the files that should go"},
	"link_outside":         {ask, "changes or deletes through a link that leads outside the workspace", "name a file inside the workspace"},
	"system_write":         {ask, "changes system files", "write inside the workspace"},
	"protected_path":       {ask, "writes a file that decides what runs later, or that holds keys", "show the change to a human instead"},
	"permissions":          {ask, "opens files to everyone, or changes modes and owners of the system", "give the least mode that works, on files of the workspace"},
	"secret":               {ask, "puts secrets where they can be read", "ask for the one value that is needed, or use it without printing it"},
	"exfiltrate":           {ask, "sends files or secrets to another machine", "send only what is needed, and name it"},
	"force_push":           {ask, "overwrites or deletes branches on the remote", "push to a new branch without force"},
	"discard_changes":      {ask, "throws away work that is not committed, or commits", "commit or stash first"},
	"rewrite_history":      {ask, "rewrites or removes recorded history", "make a new commit instead"},
	"delete_branch":        {ask, "deletes branches, tags or stashes", "leave them, or delete merged branches with git branch -d"},
	"hosted_repository":    {ask, "changes or deletes a hosted repository past its protection", "open a pull request"},
	"shutdown":             {ask, "stops or restarts the machine", ""},
	"kill":                 {ask, "ends processes that this session did not start", "end single processes by their id"},
	"service":              {ask, "starts, stops or changes services of the machine", "only look: systemctl status"},
	"disk":                 {ask, "changes volumes, mounts or partitions", ""},
	"fill_disk":            {ask, "writes without end", "give a count"},
	"kernel":               {ask, "changes kernel settings or modules", ""},
	"firewall":             {ask, "changes the firewall or the network", "only look: ip addr, ss"},
	"account":              {ask, "changes user accounts", ""},
	"clock":                {ask, "sets the clock", ""},
	"schedule":             {ask, "changes what runs by itself later", ""},
	"logs":                 {ask, "removes logs or hides what was done", ""},
	"packages":             {ask, "removes system packages", ""},
	"publish":              {ask, "publishes to a registry, for everyone to use", "build it, and let a human publish"},
	"database":             {ask, "deletes data in a database", "delete single rows with a condition, or work on a copy"},
	"containers":           {ask, "deletes containers, volumes or images, or opens the host to one", "name the one container to remove, without its volumes"},
	"cluster":              {ask, "deletes or evicts workloads of a cluster", "kubectl get and describe are fine"},
	"cloud":                {ask, "deletes or changes cloud resources", "make a plan and let a human apply it"},
	"remote_delete":        {ask, "would do on another machine or container what is refused here", ""},
	"scan":                 {ask, "scans networks", ""},
	"mail":                 {ask, "sends mail", ""},
	"debugger":             {ask, "takes control of another process", ""},
}

// IsCode says whether a policy id is that of a finding that can be asked about.
func IsCode(id string) bool {
	what, ok := strings.CutPrefix(id, "command.dangerous.")
	o, known := objections[what]
	return id == CodeProtected || ok && known && o.tier == ask
}

// quote shows text to a reader: escapes for what cannot be seen, and not too long.
func quote(s string) string {
	if len(s) > 160 {
		s = strings.ToValidUTF8(s[:160], "") + "…"
	}
	return strconv.QuoteToGraphic(strings.ReplaceAll(s, hole, "…"))
}

func show(v value) string { return quote(v.text) }
