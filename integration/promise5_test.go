package integration

import (
	"strings"
	"testing"
)

// Many clients send one request at once: one batch runs, and all are told the
// same. Another content under that id is refused, after a crash too.
func TestPromise5_TheSameRequestNeverRunsTwice(t *testing.T) {
	eachStore(t, func(t *testing.T, s *site) {
		d := s.start()
		c := s.client(t)
		for n := range times(1, 20) {
			token := "token-" + strings.Repeat("x", n+1)
			req := batch(bash(token, leaveToken(token)), read("read", tokens))
			stories := make(chan *story)
			const clients = 64
			for i := range clients {
				own := c
				if i%8 == 0 { // some over connections of their own
					own = s.client(t)
				}
				go func() {
					told := &story{}
					if _, err := own.Execute(within(t), req, told.add); err != nil {
						t.Error(err)
					}
					stories <- told
				}()
			}
			first := <-stories
			for range clients - 1 {
				first.checkSame(t, <-stories)
			}
			d.kill()
			d = s.start()
			c = s.client(t)
			first.checkSame(t, run(t, c, req))

			other := batch(bash(token, leaveToken(token)), read("read", tokens+" "))
			other.Spec.RequestId = req.GetSpec().GetRequestId()
			if got, notAccepted := refusal(execute(t, c, other)); got != "AlreadyExists/REQUEST_ID_REUSED" || !notAccepted {
				t.Errorf("another content under the same id: %s, accepted=false %v", got, notAccepted)
			}
		}
		d.stop()
		f := s.ledger().facts(t)
		f.checkEffects(t, s.effects(t))
		f.checkTerminal(t)
		if len(f.batches) != times(1, 20) {
			t.Errorf("there are %d batches", len(f.batches))
		}
	})
}
