package exec

import "github.com/toold/toold/internal/tool"

// Wave is a set of calls, by position, that may run at once. Waves run one after
// another.
type Wave []int

// Plan orders the calls that may run. classes are in call order; a call whose
// class is ClassUnspecified does not run and is in no wave. It is pure: the same
// input always gives the same waves.
func Plan(mode ScheduleMode, classes []tool.Class) []Wave {
	var waves []Wave
	var reads Wave
	flush := func() {
		if len(reads) > 0 {
			waves, reads = append(waves, reads), nil
		}
	}
	for i, c := range classes {
		switch {
		case c == tool.ClassUnspecified:
		case c == tool.ReadOnly && mode != Serial:
			reads = append(reads, i)
		case mode == ProgramOrder:
			flush()
			waves = append(waves, Wave{i})
		default:
			waves = append(waves, Wave{i})
		}
	}
	if mode == ProgramOrder {
		flush()
		return waves
	}
	if len(reads) > 0 {
		waves = append([]Wave{reads}, waves...)
	}
	return waves
}

// MovedReads gives the reads that READS_FIRST runs before a non-read that
// stands before them: they see the state as it was before that call.
func MovedReads(mode ScheduleMode, classes []tool.Class) map[int]bool {
	moved := make(map[int]bool)
	if mode == ProgramOrder || mode == Serial {
		return moved
	}
	behind := false
	for i, c := range classes {
		switch c {
		case tool.ReadOnly:
			if behind {
				moved[i] = true
			}
		case tool.ClassUnspecified:
		default:
			behind = true
		}
	}
	return moved
}
