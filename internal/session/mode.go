package session

// Mode says what a session's calls may do.
type Mode uint8

// The modes.
const (
	Normal Mode = iota
	Plan
)

func (m Mode) String() string {
	if m == Plan {
		return "PLAN"
	}
	return "NORMAL"
}
