package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/toold/toold/internal/policy"
	"github.com/toold/toold/internal/policy/shell"
	"github.com/toold/toold/internal/sandbox"
	"github.com/toold/toold/internal/tool"
	"github.com/toold/toold/internal/tools/command"
	"github.com/toold/toold/internal/tools/file"
	"github.com/toold/toold/internal/tools/schedule"
)

// builtin are the tools that come with the daemon.
func builtin(c Config, artifacts file.Artifacts) []tool.Tool {
	home, _ := os.UserHomeDir() // unknown: nothing is taken for the home folder
	return slices.Concat(
		file.Tools(file.Options{Artifacts: artifacts}),
		schedule.Tools(),
		[]tool.Tool{command.New(command.Options{
			Analyse: func(text, dir, workspace string) command.Analysis {
				a := shell.Analyse(text, shell.Options{Dir: dir, Workspace: workspace, Home: home})
				reads := make([]command.Read, len(a.Reads))
				for i, r := range a.Reads {
					reads[i] = command.Read(r)
				}
				return command.Analysis{Class: a.Class, Effects: a.Effects, Commands: a.Commands, Findings: a.Findings, Reads: reads}
			},
			Secret: shell.Secret, LinkOutside: shell.LinkOutside,
			Shell:      c.Commands.Shell,
			MaxTimeout: c.Limits.CallTimeout,
			PassEnv:    c.Commands.PassEnv,
			Limits: sandbox.Limits{
				CPU: c.Commands.CPU, Memory: int64(c.Commands.Memory), FileSize: int64(c.Commands.FileSize),
				OpenFiles: c.Commands.OpenFiles, Processes: c.Commands.Processes,
			},
			Grace: c.Commands.Grace,
		})},
	)
}

// openPolicy reads the policy that is configured.
func openPolicy(c Config) (*policy.Policy, error) {
	o := policy.Options{Profile: c.Profile}
	for _, t := range builtin(c, nil) {
		o.Tools = append(o.Tools, t.Spec().Name)
	}
	if c.Policy != "" {
		path, err := absolute(c.Policy)
		if err != nil {
			return nil, fmt.Errorf("finding the policy file: %w", err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the policy: %w", err)
		}
		o.Files = []policy.File{{Name: c.Policy, Data: text}}
	}
	return policy.New(o)
}

// policyName says at start what is in force.
func (d *daemon) policyName() string {
	if d.config.Policy == "" {
		return d.policy.Profile()
	}
	return d.policy.Profile() + " with the rules of " + d.config.Policy
}
