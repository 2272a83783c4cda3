package policy

import (
	"fmt"
	"strings"

	"github.com/toold/toold/internal/tool"
)

// profile is a set of defaults for calls that no rule is about.
type profile struct {
	name string
	// strict denies what command safety would ask about.
	strict bool
	// changes is the answer for WRITE and SYSTEM_CHANGE; READ_ONLY is allowed.
	changes Verdict
	// confined allows what stays inside the workspace or the sandbox.
	confined bool
}

var profiles = map[string]profile{
	"locked":      {name: "locked", changes: Deny},
	"standard":    {name: "standard", changes: Ask},
	"development": {name: "development", changes: Ask, confined: true},
	"ci":          {name: "ci", changes: Allow, strict: true},
}

// answer is the profile's default for a call.
func (p profile) answer(in *Input, class tool.Class) Decision {
	d := Decision{Verdict: Allow, Stage: Default, ReasonCode: CodeDefaultAllow, PolicyID: fmt.Sprintf("default.%s.%s", p.name, strings.ToLower(class.String()))}
	if p.name == "" {
		d.PolicyID = "default.read_only"
	}
	if class != tool.ReadOnly && (!p.confined || !confined(in, class)) {
		d.Verdict = p.changes
	}
	switch d.Verdict {
	case Allow:
		d.Reason = fmt.Sprintf("No rule is about it, and %s calls of this kind are allowed.", class)
	case Deny:
		d.ReasonCode = CodeDefaultDeny
		d.Reason = fmt.Sprintf("No rule allows this call of %s, and the profile %s denies %s calls. READ_ONLY calls run.", in.Tool, p.name, class)
	default:
		d.ReasonCode = CodeDefaultAsk
		d.Reason = fmt.Sprintf("No rule allows this call of %s, and the profile %s asks a human about %s calls. READ_ONLY calls run unasked.", in.Tool, p.name, class)
	}
	return d
}

// confined says whether a call cannot reach beyond the workspace: a WRITE to its
// files, or commands in a sandbox without network.
func confined(in *Input, class tool.Class) bool {
	if class == tool.SystemChange {
		return in.Isolated && len(in.Commands) > 0
	}
	for _, e := range in.Effects {
		if e.Verb != tool.VerbRead && !strings.HasPrefix(e.Target, "ws:/") {
			return false
		}
	}
	return true
}
