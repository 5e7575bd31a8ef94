package solo

import (
	"testing"

	"headrace"
	"headrace/data/datatest"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
)

// TestRealKillIsPricedWithInput: of two tasks that have read as much that one is killed which
// will find it in memory, although it has run for longer; the file of the other, which found it
// in memory, is gone from there.
func TestRealKillIsPricedWithInput(t *testing.T) {
	datatest.NeedCachestat(t)
	m := newMachine(t, policy.Kill)
	const size = 64 << 20
	dir := testkit.OpenDir(t)
	stays, goes := testkit.File(t, dir, "stays", size, 0o644), testkit.File(t, dir, "goes", size, 0o644)
	m.launch()
	begin := func(path string) headrace.TaskID {
		id := m.run(headrace.Low, func(q *wire.RunRequest) {
			q.Argv = []string{"/bin/sh", "-c", `until [ -e "$0.go" ]; do sleep 0.01; done; cat "$0" >/dev/null; touch "$0.read"; exec sleep 1000`, path}
			q.Env, q.Cpus, q.Input = []string{"PATH=/usr/bin:/bin"}, 0.5, &wire.Input{Paths: []string{path}, NoWarm: true}
		})
		m.awaitState(id, headrace.Running)
		return id
	}
	cheap, dear := begin(stays), begin(goes)
	for m.get(dear).SinceMs-m.get(cheap).SinceMs > 500 { // on a busy machine: it would have run for longer than it takes to read the file
		for _, id := range []headrace.TaskID{cheap, dear} {
			if _, err := m.tasks.Kill(m.ctx(), &wire.VerbRequest{Id: string(id), Grace: 0.001}); err != nil {
				t.Fatal(err)
			}
		}
		cheap, dear = begin(stays), begin(goes)
	}
	testkit.DropFile(t, stays)
	for _, path := range []string{stays, goes} {
		m.write(path+".go", "")
		m.awaitFile(path + ".read")
	}
	if m.measured(cheap); m.get(cheap).Usage.ReadBytes < size {
		t.Skip("what a task reads from this file system is not counted in /proc/PID/io")
	}
	testkit.DropFile(t, goes)
	m.measured(dear)
	urgent := m.run(headrace.High, func(q *wire.RunRequest) { q.Argv, q.Cpus = []string{"/bin/true"}, 0.5 })
	m.awaitState(urgent, headrace.Done)
	if c, d := m.get(cheap), m.get(dear); c.Preemptions != 1 || d.Preemptions != 0 {
		t.Errorf("the one whose input is in memory left %d times, the other %d times\n%v\n%v\n%v", c.Preemptions, d.Preemptions, c.History, d.History, m.get(urgent).History)
	}
}

// measured waits until a task, and what is in memory, has been measured anew: that is done each
// second.
func (m *machine) measured(id headrace.TaskID) {
	m.t.Helper()
	from := m.get(id).Usage.GetRunning()
	m.await(id, "measured", func(t *wire.Task) bool { return t.Usage.GetRunning() > from+2.5 })
}
