package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"headrace/wire"
)

// bigLog is more than pipes and sockets hold that nobody reads from, also when it is compressed.
func bigLog() (chunks []*wire.LogChunk, all []byte) {
	rng := rand.NewChaCha8([32]byte{1})
	for range 128 {
		data := make([]byte, 64<<10)
		rng.Read(data)
		chunks = append(chunks, &wire.LogChunk{Data: data, Stream: wire.Stream_STREAM_STDOUT})
		all = append(all, data...)
	}
	return chunks, all
}

// pausing starts a program whose standard output is read by nobody before the daemon has broken its answer off.
func pausing(t *testing.T, fake *fakeDaemon, args ...string) (r *running, out []byte) {
	t.Helper()
	fake.patience, fake.cut = 50*time.Millisecond, make(chan struct{}, 1)
	if err := fake.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.stop)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r = startWith(t, t.TempDir(), func(cmd *exec.Cmd) {
		cmd.Stdout = write
		cmd.Args = append(cmd.Args, "--state-dir", filepath.Dir(fake.socket))
	}, args...)
	write.Close()
	select {
	case <-fake.cut:
	case <-time.After(time.Minute):
		text, _ := r.errOut.read()
		t.Fatalf("the answer was never broken off; it says %q", text)
	}
	if out, err = io.ReadAll(read); err != nil {
		t.Fatal(err)
	}
	return r, out
}

// TestLogsOutlastAPausedReader: whoever pages through a log for longer than the daemon waits gets all of it.
func TestLogsOutlastAPausedReader(t *testing.T) {
	fake := newFake(t.TempDir())
	fake.tasks = []*wire.Task{{Id: "t1", State: "done"}}
	chunks, want := bigLog()
	fake.chunks["t1"] = chunks
	r, out := pausing(t, fake, "logs", "t1")
	if err := r.cmd.Wait(); err != nil || !bytes.Equal(out, want) {
		text, _ := r.errOut.read()
		t.Errorf("%v: %d bytes of %d, and it says %q", err, len(out), len(want), text)
	}
}

// TestFollowFromAnotherAttempt: a task that was begun again while its follower was away is shown from its beginning.
func TestFollowFromAnotherAttempt(t *testing.T) {
	fake := newFake(t.TempDir())
	fake.tasks, fake.attempt = []*wire.Task{{Id: "t1", State: "running"}}, "first"
	fake.chunks["t1"] = []*wire.LogChunk{{Data: []byte("the first attempt\n"), Stream: wire.Stream_STREAM_STDOUT}}
	if err := fake.start(); err != nil {
		t.Fatal(err)
	}
	r := startHere(t, t.TempDir(), "logs", "-f", "t1", "--state-dir", filepath.Dir(fake.socket))
	if err := fake.await(t.Context(), func() bool { return fake.logging["t1"] > 0 }); err != nil {
		t.Fatal(err)
	}
	fake.stop()
	fake.change(func() {
		fake.attempt, fake.tasks[0].State = "second", "done"
		fake.chunks["t1"] = []*wire.LogChunk{{Data: []byte("the second one\n"), Stream: wire.Stream_STREAM_STDOUT}}
	})
	if err := fake.start(); err != nil {
		t.Fatal(err)
	}
	defer fake.stop()
	if err := r.cmd.Wait(); err != nil || r.out.String() != "the first attempt\nthe second one\n" {
		text, _ := r.errOut.read()
		t.Errorf("%v: it shows %q and says %q", err, r.out.String(), text)
	}
}
