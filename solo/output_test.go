package solo

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
)

// writer returns a command that writes two lines to an output file: the second when the gate is there. It ends when that is gone
// again.
func writer(name, output, gate string) func(*wire.RunRequest) {
	return func(q *wire.RunRequest) {
		q.Argv = []string{"/bin/sh", "-c", fmt.Sprintf(
			"echo %s begins; while [ ! -e %s ]; do sleep 0.01; done; echo %s goes on; while [ -e %s ]; do sleep 0.01; done", name, gate, name, gate)}
		q.Env = []string{"PATH=/usr/bin:/bin"}
		q.Output = output
	}
}

// sharing is a machine on which tasks write to one file, the second by a path that leads through a link.
type sharing struct {
	*machine
	output string
}

func newSharing(t *testing.T, pol policy.Name) *sharing {
	m := newMachine(t, pol)
	m.flags = []string{"--slots", "2"}
	m.launch()
	if err := os.Symlink(".", filepath.Join(m.cfg.StateDir, "link")); err != nil {
		t.Fatal(err)
	}
	return &sharing{m, filepath.Join(m.cfg.StateDir, "all.log")}
}

func (s *sharing) gate(name string) string { return filepath.Join(s.cfg.StateDir, name+".gate") }

func (s *sharing) open(name string) {
	s.t.Helper()
	if err := os.WriteFile(s.gate(name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sharing) close(name string) {
	s.t.Helper()
	if err := os.Remove(s.gate(name)); err != nil {
		s.t.Fatal(err)
	}
}

// begin runs a task and waits for its first line.
func (s *sharing) begin(name string, p headrace.Priority) headrace.TaskID {
	s.t.Helper()
	output := s.output
	if name == "second" {
		output = filepath.Join(filepath.Dir(output), "link", filepath.Base(output))
	}
	id := s.run(p, writer(name, output, s.gate(name)))
	s.lines(name+" begins", 1)
	return id
}

// lines waits until a line is there so many times.
func (s *sharing) lines(line string, n int) {
	s.t.Helper()
	testkit.Await(s.t, fmt.Sprintf("%q %d times", line, n), func() bool {
		b, err := os.ReadFile(s.output)
		return err == nil && strings.Count(string(b), line+"\n") == n
	})
}

// TestRealSharedOutputAfterAKill: a task that is killed to make room, and starts again, leaves in its output file what others
// have written there meanwhile.
func TestRealSharedOutputAfterAKill(t *testing.T) {
	s := newSharing(t, policy.Kill)
	first := s.begin("first", headrace.Low)
	second := s.begin("second", headrace.Low)
	s.open("first")
	s.lines("first goes on", 1)
	s.close("first")
	s.awaitState(first, headrace.Done)
	var urgent []headrace.TaskID
	for range 2 { // the first of them takes the slot that is free
		urgent = append(urgent, s.run(headrace.High, counter(100_000)))
	}
	s.awaitState(second, headrace.Pending)
	for _, id := range urgent {
		if _, err := s.tasks.Kill(s.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
			t.Fatal(err)
		}
	}
	s.lines("second begins", 2) // once for each attempt
	s.lines("first goes on", 1)
}

// TestRealSharedOutputAfterALoss: a task that goes on from its checkpoint after a loss, having run on since, does the same.
func TestRealSharedOutputAfterALoss(t *testing.T) {
	s := newSharing(t, policy.Wait)
	if !s.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	first := s.begin("first", headrace.Low)
	q := &wire.VerbRequest{Id: string(first)}
	if _, err := s.tasks.Checkpoint(s.ctx(), q); err != nil {
		t.Fatal(err)
	}
	second := s.begin("second", headrace.Low) // it begins while the other one is only a checkpoint
	if _, err := s.tasks.Restore(s.ctx(), q); err != nil {
		t.Fatal(err)
	}
	s.awaitState(first, headrace.Running)
	s.open("second")
	s.lines("second goes on", 1)
	s.close("second")
	s.awaitState(second, headrace.Done)
	restores := func(task *wire.Task) (n int) { // one that is not possible yet is tried again
		for _, e := range task.History {
			if e.State == headrace.Restoring.String() {
				n++
			}
		}
		return n
	}
	before := restores(s.get(first))
	for _, dir := range s.supervisors(first) {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	s.await(first, "restored again", func(task *wire.Task) bool {
		return restores(task) > before && task.State == headrace.Running.String() && task.Doing == ""
	})
	s.lines("second goes on", 1)
	s.open("first")
	s.lines("first goes on", 1)
	s.close("first")
	s.awaitState(first, headrace.Done)
}
