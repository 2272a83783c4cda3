package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/toold/toold/proto/toold/v1"
)

func TestAQuietStopSaysOnlyThat(t *testing.T) {
	out, stop := started(t, testConfig(t))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "draining") || !strings.Contains(text, "msg=stopped") {
		t.Errorf("nothing ran:\n%s", text)
	}
}

func TestAStopThatIsForcedSaysSo(t *testing.T) {
	c := testConfig(t)
	c.LogFormat, c.DrainTimeout = "json", 100*time.Millisecond
	out, stop := started(t, c)
	stream, err := pb.NewExecutionServiceClient(dial(t, "unix:"+filepath.Join(c.DataDir, "toold.sock"))).ExecuteBatch(t.Context(), &pb.ExecuteBatchRequest{
		Spec:  &pb.BatchSpec{Stream: &pb.StreamOptions{OutputChunks: true}},
		Calls: []*pb.ToolCall{{Tool: "bash", ArgumentsJson: `{"command":"echo begun; sleep 600"}`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for begun := false; !begun; {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		begun = r.GetEvent().GetChunk() != nil
	}
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	for _, want := range []string{`"for":"100ms"`, "the time to drain is up"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %s:\n%s", want, out)
		}
	}
}

func TestASecondSignalEndsTheProcessAndSaysSo(t *testing.T) {
	var log bytes.Buffer
	signals := make(chan os.Signal, 2)
	signals <- os.Interrupt
	signals <- os.Interrupt
	code := 0
	secondSignal(signals, newLogger(defaults(), &log), func(status int) { code = status })
	if code != 1 || !strings.Contains(log.String(), "second signal") {
		t.Errorf("%d, %q", code, &log)
	}
	one := make(chan os.Signal, 1)
	one <- os.Interrupt
	close(one)
	secondSignal(one, newLogger(defaults(), &log), func(int) { t.Error("one signal ended it") })
}
