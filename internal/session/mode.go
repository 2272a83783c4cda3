package session

import "github.com/toold/toold/internal/policy"

// Mode says what a session's calls may do.
type Mode = policy.Mode

// The modes.
const (
	Normal = policy.Normal
	Plan   = policy.Plan
)
