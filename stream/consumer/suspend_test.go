package consumer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/stream/protocol"
)

var procFS linux.ProcFS

// catches tells whether a process has a handler for a signal; one that is gone
// has none.
func catches(t testing.TB, pid int, sig syscall.Signal) bool {
	t.Helper()
	st, err := procFS.Stat(pid)
	if err != nil && !linux.Gone(err) {
		t.Fatal(err)
	}
	return err == nil && st.Catches(sig)
}

// holds lists what a process has that keeps it from being checkpointed.
func holds(t testing.TB, pid int) (list []string) {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err == nil && (strings.HasPrefix(target, "socket:") || strings.Contains(target, "memfd:") || strings.Contains(target, "dealer-input") || strings.Contains(target, "pidfd")) {
			list = append(list, target)
		}
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	must(t, err)
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.Contains(line, "memfd:") {
			list = append(list, line)
		}
	}
	return list
}

// awaitStopped waits until all threads of a process are stopped.
func awaitStopped(t testing.TB, pid int) {
	t.Helper()
	testkit.Await(t, "the process to stop", func() (all bool) {
		all = true
		err := procFS.ThreadStates(pid, func(_ int, state byte) bool {
			all = linux.Stopped(state)
			return all
		})
		if err != nil && !linux.Gone(err) {
			t.Fatal(err)
		}
		return all
	})
}

// suspend does what the supervisor of a task does (package proc/shim). It returns
// whether the handler of the runner was ready within the grace, and still when it was stopped: who is
// slow to stop it may find that it has taken that for called off.
func (r *running) suspend(grace time.Duration) (ready bool) {
	r.t.Helper()
	pid := r.cmd.Process.Pid
	if r.over() || !catches(r.t, pid, unix.SIGTSTP) {
		return false
	}
	r.try(unix.SIGTSTP)
	for deadline := time.Now().Add(grace); !ready && time.Now().Before(deadline); {
		if r.over() {
			return false
		}
		ready = !catches(r.t, pid, unix.SIGTSTP)
		time.Sleep(time.Millisecond)
	}
	if r.over() {
		return false
	}
	r.try(unix.SIGSTOP)
	awaitStopped(r.t, pid)
	return ready && !r.over() && !catches(r.t, pid, unix.SIGTSTP)
}

// oftenEnough is how often a test stops a runner at most: if the machine is so slow that the runner gets on with nothing in between, it
// is to come to an end all the same.
const oftenEnough = 100

func (r *running) over() bool {
	st, err := procFS.Stat(r.cmd.Process.Pid)
	return err != nil || linux.Dead(st.State)
}

// gate is a file that a command waits for in the middle of its input, so that it
// cannot end before the test has done with it what it is about, however slow the
// machine is.
type gate string

func newGate(t testing.TB) gate { return gate(filepath.Join(t.TempDir(), "gate")) }

// open lets the command go on.
func (g gate) open(t testing.TB) {
	t.Helper()
	must(t, os.WriteFile(string(g), nil, 0o600))
}

// slowCat returns a command that says ready and then copies its input, with pauses.
// It is one process: a shell would be in the middle of starting another now and
// then, and the supervisor stops it only after continuing all for a moment.
func slowCat(block int, pause time.Duration) []string { return slowCatTo(0, "", block, pause) }

// slowCatTo is a slowCat that waits for a gate when it has copied so many bytes.
func slowCatTo(at int, g gate, block int, pause time.Duration) []string {
	return []string{"python3", "-c", `
import os, sys, time
block, pause, at, gate = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
os.write(1, b"ready\n")
done = 0
while True:
    b = os.read(0, block)
    if not b: break
    done += len(b)
    while b: b = b[os.write(1, b):]
    time.sleep(pause)
    while gate and done >= at and not os.path.exists(gate): time.sleep(0.01)
`, fmt.Sprint(block), fmt.Sprint(pause.Seconds()), fmt.Sprint(at), string(g)}
}

// A runner that is suspended holds nothing that could not be checkpointed, and
// goes on where it was.
func TestSuspend(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	d := newDealer(t, testUnit{data: lines(r, 400000), inFile: true}, testUnit{data: lines(r, 50000)},
		testUnit{path: "/z", codec: protocol.Gzip, data: gzipped(t, "", lines(r, 900000)), piece: 100})
	// A command that is slow, so that the runner waits for it.
	want, g := string(d.expected(d.all())), newGate(t)
	run := start(t, d.listen(), slowCatTo(len(want)/2, g, 64<<10, 3*time.Millisecond)...)
	run.awaitOutput("ready")
	testkit.Await(t, "it to hold something", func() bool { return len(holds(t, run.cmd.Process.Pid)) > 0 })
	times := 0
	for n := 0; !run.over() && (n < oftenEnough || times < 2); n++ {
		if run.suspend(20 * time.Second) {
			if times++; times == 2 {
				g.open(t)
			}
			if held := holds(t, run.cmd.Process.Pid); len(held) > 0 {
				t.Fatalf("suspended it holds %q", held)
			}
			d.await("the end of the connection", func() bool { return len(d.links) == 0 })
		}
		run.try(unix.SIGCONT)
		breathe(r)
	}
	if code := run.wait(); code != 0 {
		t.Errorf("code %d: %s", code, run.says())
	}
	if times < 2 {
		t.Errorf("suspended only %d times", times)
	}
	if got := strings.TrimPrefix(run.output(), "ready\n"); got != want {
		t.Errorf("the command wrote %d bytes, want %d", len(got), len(want))
	}
}

// Being ready to be stopped takes a few milliseconds, where nothing else runs.
func TestSuspendIsQuick(t *testing.T) {
	d := newDealer(t, testUnit{data: make([]byte, 8<<20)})
	d.slot, d.window = 1<<20, 4
	run := start(t, d.listen(), "sh", "-c", "echo ready; sleep 1000")
	run.awaitOutput("ready")
	a := d.attemptOfLocked(0, 1)
	d.await("a full pipe", func() bool { return a.link != nil && len(a.link.held) == 4 })
	echo := exec.Command("cat")
	in, out := testkit.Pipes(t, echo)
	testkit.Start(t, echo)
	var took, busy []time.Duration // busy: what a word to another process and back takes meanwhile
	ready := 0
	for range 12 {
		begin := time.Now()
		if _, err := in.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		busy = append(busy, time.Since(begin))
		begin = time.Now()
		if run.suspend(5 * time.Second) {
			ready++
		}
		took = append(took, time.Since(begin))
		run.signal(unix.SIGCONT)
		d.await("another connection", func() bool { return a.link != nil })
		testkit.Await(t, "a handler", func() bool { return catches(t, run.cmd.Process.Pid, unix.SIGTSTP) })
	}
	slices.Sort(took)
	slices.Sort(busy)
	t.Logf("stopped after %v (median), %v at most; an echo took %v (median)", took[6], took[11], busy[6])
	if took[6] > 500*time.Millisecond+20*busy[6] || ready < 7 {
		t.Errorf("being stopped took %v (median), an echo %v; it was ready %d times", took[6], busy[6], ready)
	}
	run.signal(unix.SIGTERM)
	run.wait()
}

// A stop that is called off, at whatever moment, leaves the runner running.
func TestStopCalledOff(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 10))
	d := newDealer(t, testUnit{data: lines(r, 300000)}, testUnit{data: lines(r, 300000)})
	want, g := string(d.expected(d.all())), newGate(t)
	run := start(t, d.listen(), slowCatTo(len(want)/2, g, 16<<10, 2*time.Millisecond)...)
	run.awaitOutput("ready")
	for i := range 40 {
		if i == 30 {
			g.open(t)
		}
		run.try(unix.SIGTSTP)
		for end := time.Now().Add(time.Duration(r.IntN(1000)) * time.Microsecond); time.Now().Before(end); {
		}
		if i%3 == 0 {
			run.try(unix.SIGSTOP) // the grace is over already
		}
		run.try(unix.SIGCONT)
		time.Sleep(time.Duration(r.IntN(15)) * time.Millisecond)
	}
	if code := run.wait(); code != 0 {
		t.Errorf("code %d: %s", code, run.says())
	}
	if got := strings.TrimPrefix(run.output(), "ready\n"); got != want {
		t.Errorf("the command wrote %d bytes, want %d", len(got), len(want))
	}
}

// A stop that nobody goes through with is taken for called off.
func TestStopWithoutEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for two seconds")
	}
	t.Parallel()
	d := newDealer(t, testUnit{data: []byte("x\n")}, testUnit{data: lines(rand.New(rand.NewPCG(1, 11)), 1<<20)})
	run := start(t, d.listen(), "sh", "-c", "read x; echo ready; read x; sleep 0.2; cat >/dev/null; exit 8")
	run.awaitOutput("ready")
	run.signal(unix.SIGTSTP)
	if code := run.wait(); code != 8 {
		t.Errorf("code %d: %s", code, run.says())
	}
}

// Commands of files that start around a stop can be stopped themselves.
func TestSuspendFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 12))
	var units []testUnit
	var want strings.Builder
	for i := range 30 {
		units = append(units, testUnit{path: fmt.Sprint("/file", i)})
		fmt.Fprintf(&want, "/file%d\nSigIgn:\t0000000000000000\n", i)
	}
	d := newDealer(t, units...)
	d.kind = protocol.Files
	d.fault = randomFaults(13, 40)
	g := newGate(t)
	run := start(t, d.listen(), "sh", "-c", `echo $1; grep SigIgn /proc/self/status; sleep 0.002
		[ $1 != /file15 ] || until [ -e "$0" ]; do sleep 0.01; done`, string(g))
	times := 0
	for n := 0; !run.over() && (n < oftenEnough || times < 2); n++ {
		if run.suspend(20 * time.Second) {
			if times++; times == 2 {
				g.open(t)
			}
			if held := holds(t, run.cmd.Process.Pid); len(held) > 0 {
				t.Fatalf("suspended it holds %q", held)
			}
		}
		run.try(unix.SIGCONT)
		breathe(r)
	}
	if code := run.wait(); code != 0 || times < 2 {
		t.Errorf("code %d after %d suspensions: %s", code, times, run.says())
	}
	// A signal that everybody ignores here is ignored there, too.
	mine, err := os.ReadFile("/proc/self/status")
	must(t, err)
	ignored := string(mine[bytes.Index(mine, []byte("SigIgn:")):])
	ignored, _, _ = strings.Cut(ignored, "\n")
	if got := run.output(); got != strings.ReplaceAll(want.String(), "SigIgn:\t0000000000000000", ignored) {
		t.Errorf("the commands printed %q", got)
	}
}

// The property of all this: several runners, random records, connections that
// break, a daemon that is restarted, processes that are stopped at random
// moments. Each command reads the units of its consumer, in order, and each unit
// is read by one.
func TestRunProperty(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 77))
		d, _ := randomDeal(t, r, "\n", true)
		for i := range 8 {
			d.units = append(d.units, testUnit{path: fmt.Sprint("/large", i), data: lines(r, 1<<20>>r.IntN(5)), piece: 4096, inFile: i%2 == 0})
		}
		d.dealt = make([]*attempt, len(d.units))
		d.fault = randomFaults(seed, 100)
		d.listen()
		var runs []*running
		var wg sync.WaitGroup
		for i := range 3 {
			command := []string{"cat"}
			if i == 1 { // a slow one
				command = slowCat(32<<10, time.Millisecond)
			}
			run := startAs(t, d, i, command...)
			runs = append(runs, run)
			chance := rand.New(rand.NewPCG(seed, uint64(i)))
			wg.Go(func() {
				for n := 0; !run.over() && n < oftenEnough; n++ {
					run.torment(chance)
				}
			})
		}
		wg.Wait()
		var all []uint32
		for i, run := range runs {
			if code := run.wait(); code != 0 {
				t.Errorf("seed %d: consumer %d: code %d: %s", seed, i, code, run.says())
			}
			var units []uint32
			d.look(func() {
				a := d.attemptOf(uint32(i), 1)
				units = a.units
				if a.finish == nil || a.finish.Code != 0 {
					t.Errorf("seed %d: consumer %d: recorded %+v", seed, i, a.finish)
				}
			})
			want := string(d.expected(units))
			if i == 1 && len(units) > 0 { // without units its command does not run
				want = "ready\n" + want
			}
			if got := run.output(); got != want {
				t.Errorf("seed %d: consumer %d: the command wrote %d bytes, want %d", seed, i, len(got), len(want))
			}
			all = append(all, units...)
		}
		slices.Sort(all)
		if !slices.Equal(all, d.all()) {
			t.Errorf("seed %d: dealt were %v", seed, all)
		}
		if t.Failed() {
			return
		}
		d.close()
	}
}

// breathe lets a runner go on for a while: it connects only when contSettle has
// passed.
func breathe(r *rand.Rand) {
	time.Sleep(contSettle*3/4 + time.Duration(r.IntN(30))*time.Millisecond)
}

// torment stops and continues a runner in one of the ways that may happen.
func (r *running) torment(chance *rand.Rand) {
	breathe(chance)
	switch chance.IntN(4) {
	case 0: // with a grace that is long enough
		r.suspend(20 * time.Second)
	case 1: // and with one that is not
		r.suspend(time.Duration(chance.IntN(300)) * time.Microsecond)
	case 2: // without a word
		r.try(unix.SIGSTOP)
	case 3: // called off
		r.try(unix.SIGTSTP)
	}
	time.Sleep(time.Duration(chance.IntN(10)) * time.Millisecond)
	r.try(unix.SIGCONT)
}

// try sends a signal to a runner that may have ended.
func (r *running) try(sig syscall.Signal) { _ = r.cmd.Process.Signal(sig) }
