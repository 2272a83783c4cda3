package storetest

import (
	"context"
	"testing"
)

// Database is one empty database, which can be opened again and again.
type Database struct {
	Open func(t testing.TB) Store
}

// Run runs the suite; fresh makes an empty database.
func Run(t *testing.T, fresh func(t testing.TB) Database) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, db Database)
	}{
		{"every kind of row comes back as it was hashed", testRows},
		{"a batch from accept to end", testBatch},
		{"a request id belongs to the first batch that claims it", testClaims},
		{"a row that cannot be written harms its own entry only", testDataErrors},
		{"a failed commit is found out about", testFaults},
		{"a commit in doubt is never guessed", testDoubt},
		{"while the store is away intents fail and outcomes wait", testAway},
		{"a new writer is chained to the newest block", testReopen},
		{"a storm with faults in it", testStorm},
		{"reading", testReading},
		{"erasing what has expired", testMaintain},
		{"sessions", testSessions},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, fresh(t))
		})
	}
}

func openFaulty(t testing.TB, db Database) *Faulty {
	return &Faulty{Store: db.Open(t), writers: map[string]bool{}}
}

// bg is for calls that nothing ends early.
var bg = context.Background()
