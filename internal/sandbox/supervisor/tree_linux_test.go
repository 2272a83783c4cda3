package supervisor

import "testing"

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 33 1 1"))
	f.Add([]byte("77 (a) R 1 (b)) Z 5 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 1"))
	f.Add([]byte("()"))
	f.Add([]byte(") ("))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if p, ok := parseStat(stat); ok && p.pid <= 0 {
			t.Errorf("%q: %+v", stat, p)
		}
	})
}

func TestParseStatIsNotFooledByNames(t *testing.T) {
	got, ok := parseStat([]byte("77 (a) R 1 (b)) Z 5 76 75 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 1"))
	want := Process{pid: 77, parent: 5, group: 76, start: 4711, zombie: true}
	if !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
