package exec

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold/toold/internal/tool"
)

// classes reads "RWS-" as READ_ONLY, WRITE, SYSTEM_CHANGE, does not run.
func classes(s string) []tool.Class {
	var out []tool.Class
	for _, r := range s {
		out = append(out, map[rune]tool.Class{'R': tool.ReadOnly, 'W': tool.Write, 'S': tool.SystemChange, '-': tool.ClassUnspecified}[r])
	}
	return out
}

func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		mode ScheduleMode
		in   string
		want []Wave
	}{
		{ReadsFirst, "", nil},
		{ReadsFirst, "RRR", []Wave{{0, 1, 2}}},
		{ReadsFirst, "WRSR", []Wave{{1, 3}, {0}, {2}}},
		{ReadsFirst, "-R-W", []Wave{{1}, {3}}},
		{0, "WR", []Wave{{1}, {0}}},
		{ProgramOrder, "WRSR", []Wave{{0}, {1}, {2}, {3}}},
		{ProgramOrder, "RRWRR", []Wave{{0, 1}, {2}, {3, 4}}},
		{ProgramOrder, "R-RW", []Wave{{0, 2}, {3}}},
		{Serial, "RWR", []Wave{{0}, {1}, {2}}},
		{Serial, "---", nil},
	} {
		if d := cmp.Diff(tc.want, Plan(tc.mode, classes(tc.in))); d != "" {
			t.Errorf("%v %q (-want +got)\n%s", tc.mode, tc.in, d)
		}
	}
}

func TestMovedReads(t *testing.T) {
	for _, tc := range []struct {
		mode ScheduleMode
		in   string
		want map[int]bool
	}{
		{ReadsFirst, "RWRSR", map[int]bool{2: true, 4: true}},
		{ReadsFirst, "RR-R", map[int]bool{}},
		{ProgramOrder, "RWR", map[int]bool{}},
		{Serial, "WR", map[int]bool{}},
	} {
		if d := cmp.Diff(tc.want, MovedReads(tc.mode, classes(tc.in))); d != "" {
			t.Errorf("%v %q (-want +got)\n%s", tc.mode, tc.in, d)
		}
	}
}

// What holds for every plan: each runnable call is in exactly one wave, only
// reads share one, and non-reads keep call order.
func TestPlanHoldsForRandomBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		in := make([]tool.Class, rng.IntN(13))
		for i := range in {
			in[i] = tool.Class(rng.IntN(4))
		}
		for _, mode := range []ScheduleMode{ReadsFirst, ProgramOrder, Serial} {
			seen := make(map[int]int)
			last := -1
			position := make(map[int]int)
			for w, wave := range Plan(mode, in) {
				for _, i := range wave {
					seen[i]++
					position[i] = w
					if in[i] != tool.ReadOnly {
						if len(wave) > 1 || i < last {
							t.Fatalf("%v %v: non-read %d shares a wave or overtakes", mode, in, i)
						}
						last = i
					}
				}
			}
			for i, c := range in {
				if want := btoi(c != tool.ClassUnspecified); seen[i] != want {
					t.Fatalf("%v %v: call %d is in %d waves, want %d", mode, in, i, seen[i], want)
				}
				if mode == ReadsFirst || c == tool.ClassUnspecified {
					continue
				}
				for j := range i {
					if in[j] != tool.ClassUnspecified && position[j] > position[i] {
						t.Fatalf("%v %v: call %d runs after the later call %d", mode, in, j, i)
					}
				}
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
