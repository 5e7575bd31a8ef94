package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"headrace/wire"
)

// TestWatchTellsOfTasksThatEndAtOnce: a task that is first heard of when it has ended is told of, unless it had ended before.
func TestWatchTellsOfTasksThatEndAtOnce(t *testing.T) {
	fake := newFake(t.TempDir())
	fake.tasks = []*wire.Task{{Id: "t1", State: "failed", Reason: "long ago"}, {Id: "t2", State: "running", Reason: "there is room"}}
	if err := fake.start(); err != nil {
		t.Fatal(err)
	}
	var out screenOf
	r := startWith(t, t.TempDir(), func(cmd *exec.Cmd) { cmd.Stdout = &out }, "ps", "--watch", "--state-dir", filepath.Dir(fake.socket))
	out.await(t, "t2 ")
	fake.change(func() {
		fake.tasks = append(fake.tasks, &wire.Task{Id: "t3", State: "failed", Reason: "no such command"})
	})
	out.await(t, "no such command")
	fake.stop()
	r.cmd.Wait()
	const want = "t2                            running          there is room\n" +
		"t3                            failed (1)       no such command\n"
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
}
