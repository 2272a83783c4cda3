package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold/toold/proto/toold/v1"
)

// Refused is a promise to whoever would send the batch elsewhere.
func TestOnlyWhatCannotHaveBeenAcceptedIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		streams []script
		opened  []string
		refused bool
	}{
		{"the server drains", []script{{"drains"}}, []string{"execute"}, true},
		{"it could not be reached before", []script{{"unsent", "unavailable"}, {"drains"}}, []string{"execute", "execute"}, true},
		{"another refusal came before", []script{{"audit-unavailable"}, {"drains"}}, []string{"execute", "execute"}, true},
		{
			"a stream died before, so draining is waited for",
			[]script{{"reset"}, {"not-found"}, {"drains"}, {"malformed"}},
			[]string{"execute", "attach r1 after 0", "execute", "execute"},
			false,
		},
		{"it can never be sent", []script{{"unsent", "too-large"}}, []string{"execute"}, true},
		{"the server refuses it", []script{{"malformed"}}, []string{"execute"}, true},
		{"accepted, then gone", []script{{"accepted", "drained"}, {"not-found"}}, []string{"execute", "attach b1 after 1"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{streams: tt.streams}
				l := p.loop(func(*tooldv1.BatchEvent) error { return nil })
				l.leaveDraining = true
				_, err := l.run(t.Context())
				e := (*Error)(nil)
				if !errors.As(err, &e) || e.Refused != tt.refused {
					t.Errorf("got %#v, want an Error with Refused %v", err, tt.refused)
				}
				if diff := cmp.Diff(tt.opened, p.opened); diff != "" {
					t.Errorf("streams (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The claim of unsentError, asked of gRPC itself.
func TestABatchThatReachedNobodyIsKnownToBeUnsent(t *testing.T) {
	c, err := Dial("unix://" + t.TempDir() + "/none.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var cause error
	c.OnRetry = func(err error, _ time.Duration) { cause = err; cancel() }
	if _, err := c.Execute(ctx, &tooldv1.ExecuteBatchRequest{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if !unsent(cause) || status.Code(cause) != codes.Unavailable {
		t.Errorf("tried again because of %#v, want an unsentError with code Unavailable", cause)
	}
}
