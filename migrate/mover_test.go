package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headrace"
	"headrace/blob"
	"headrace/internal/testkit"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/proc/needs"
)

// An archive that hangs, and cannot be interrupted, costs one container a little time,
// and those after it none for a while.
func TestArchiveHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		m := &Mover{Name: "nfs", Open: func(context.Context) (*Archive, error) {
			<-back
			return nil, errors.New("it is back")
		}}
		take := func() (string, time.Duration) {
			began := time.Now()
			_, err := m.Take(t.Context(), Parcel{Task: "c1"})
			if err == nil {
				t.Fatal("something was taken")
			}
			return err.Error(), time.Since(began)
		}
		if said, took := take(); took != lookTime || !strings.Contains(said, "nfs has not answered") {
			t.Errorf("the first: %v, after %v", said, took)
		}
		if said, took := take(); took != 0 || !strings.Contains(said, "asked again in 30s") {
			t.Errorf("the second: %v, after %v", said, took)
		}
		time.Sleep(lookPause)
		if said, took := take(); took != 0 || !strings.Contains(said, "has not answered for longer") {
			t.Errorf("after a pause: %v, after %v", said, took)
		}
		close(back)
		synctest.Wait()
		if said, took := take(); took != 0 || !strings.Contains(said, "it is back") {
			t.Errorf("when it is back: %v, after %v", said, took)
		}
	})
}

// TestArchiveMountedAnew: an archive whose name leads elsewhere by now is opened again, and nothing is sent to where it was.
func TestArchiveMountedAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	m := &Mover{Name: "nfs", Open: func(ctx context.Context) (*Archive, error) {
		p, err := blob.Dir(dir)
		if err != nil {
			return nil, err
		}
		return New(ctx, p, testToken, Options{})
	}}
	sweep := func() error { return m.Sweep(t.Context(), slog.New(slog.DiscardHandler)) }
	if err := sweep(); err != nil {
		t.Fatal(err)
	}
	before, err := m.reach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	putEntry(t, before, "k")
	if err := errors.Join(os.Rename(dir, dir+"-before"), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Put(t.Context(), NewID(), describe("k"), addBytes(t, "x", nil)); err == nil {
		t.Error("something was put where nobody else sees it")
	}
	if err := sweep(); err == nil || !strings.Contains(m.Problem(), "another directory") {
		t.Errorf("%v, problem %q", err, m.Problem())
	}
	if err := sweep(); err != nil || m.Problem() != "" {
		t.Errorf("%v, problem %q", err, m.Problem())
	}
	at, err := m.reach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := statesOf(t, at); len(got) != 0 {
		t.Errorf("the new directory has %v", got)
	}
	putEntry(t, at, "k")
}

// A yard is a machine on which containers of an application run, with two disks for files and one for logs. Where one of them
// goes on is a yard with the same paths, on which it has not been.
type yard struct {
	t     *testing.T
	top   string
	place *failing
	o     *Observer
	needs needs.Files // of the container that is checkpointed

	record int // the version of its record
}

func newYard(t *testing.T) *yard {
	y := &yard{t: t, top: t.TempDir(), place: &failing{Place: newDir(t)}, o: &Observer{CRIU: says("4.2", nil)}, record: 1}
	for _, dir := range []string{"disk1", "disk2", "logs"} {
		layout(t, y.top, dir+"/")
	}
	return y
}

// launch has YARN make the directories of a container.
func (y *yard) launch(container string) Parcel {
	y.t.Helper()
	layout(y.t, y.top, "disk1/"+container+"/", "disk2/"+container+"/", "logs/"+container+"/")
	at := func(name string) string { return filepath.Join(y.top, name) }
	return Parcel{
		Task: headrace.TaskID(container), Application: "application_1_0001", User: "ann", Store: at("store-of-" + container),
		Spec: proc.Spec{
			Argv: []string{"work"}, Cwd: at("disk1/" + container), UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
			Env: []string{"LOCAL_DIRS=" + at("disk1") + "," + at("disk2"), "LOG_DIRS=" + at("logs/"+container)},
		},
	}
}

// remove is what a NodeManager does when a container has left, or when its application has ended.
func (y *yard) remove(names ...string) {
	y.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(y.top, name)); err != nil {
			y.t.Fatal(err)
		}
	}
}

func (y *yard) mover(node string) *Mover {
	return &Mover{Name: "archive", Node: node, Observer: y.o, Open: func(ctx context.Context) (*Archive, error) { return New(ctx, y.place, testToken, Options{}) }}
}

// send checkpoints a container that began as another one, or as itself, and sends it away.
func (y *yard) send(p Parcel, began, node string) error {
	y.t.Helper()
	store, err := p.open()
	if err != nil {
		y.t.Fatal(err)
	}
	meta, err := json.Marshal(map[string]any{"version": y.record, "init_pid": 2, "task_dir": "/state/tasks/" + began, "needs": y.needs})
	if err != nil {
		y.t.Fatal(err)
	}
	dumpImageWith(y.t, store, string(p.Task), 1, 10, meta)
	p.ID = NewID()
	return y.mover(node).Send(y.t.Context(), p, func() error { return nil })
}

// states counts the entries in each state.
func (y *yard) states() map[State]int {
	y.t.Helper()
	states := map[State]int{}
	for _, s := range statesOf(y.t, newArchive(y.t, y.place.Place, Options{})) {
		states[s]++
	}
	return states
}

func (y *yard) wantState(want State) {
	y.t.Helper()
	if got := y.states(); len(got) != 1 || got[want] != 1 {
		y.t.Errorf("the archive has %v, want one that is %s", got, want)
	}
}

func (y *yard) mustSend(p Parcel, began, node string) {
	y.t.Helper()
	if err := y.send(p, began, node); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) mustTake(p Parcel, node string) Taken {
	y.t.Helper()
	taken, err := y.mover(node).Take(y.t.Context(), p)
	if err != nil {
		y.t.Fatal(err)
	}
	return taken
}

func (y *yard) wantFiles(names ...string) {
	y.t.Helper()
	for _, name := range names {
		if b, err := os.ReadFile(filepath.Join(y.top, name)); err != nil || string(b) != name {
			y.t.Errorf("%s has %q, %v", name, b, err)
		}
	}
}

const containerA, containerB, containerC = "container_1_0001_01_000002", "container_1_0001_01_000003", "container_1_0001_01_000004"

// TestNewerRecord: a checkpoint that only a newer program knows stays for a machine that has it.
func TestNewerRecord(t *testing.T) {
	y := newYard(t)
	y.record = 1 << 20
	if err := y.send(y.launch(containerA), containerA, "n1"); !errors.Is(err, checkpoint.ErrVersion) {
		t.Errorf("it was sent: %v", err)
	}
	of := &Manifest{Description: Description{Meta: json.RawMessage(`{"task_dir": "/state/tasks/a", "record": 1048576}`)}}
	if err := y.mover("n2").accept(t.Context(), proc.Spec{}, Fingerprint{}, of); !errors.Is(err, checkpoint.ErrVersion) {
		t.Errorf("it was taken: %v", err)
	}
}

// TestSilentCRIU: while CRIU does not say its version nothing is sealed that no machine is like, and what waits is not passed over.
func TestSilentCRIU(t *testing.T) {
	y := newYard(t)
	a := y.launch(containerA)
	silent := func() func(context.Context) (string, error) { // once
		n := 0
		return func(context.Context) (string, error) {
			if n++; n == 1 {
				return "", errors.New("fork: no memory")
			}
			return "4.2", nil
		}
	}
	y.o.CRIU = silent()
	if err := y.send(a, containerA, "n1"); err == nil || !strings.Contains(err.Error(), "no memory") {
		t.Errorf("it was sent: %v", err)
	}
	a.ID = NewID()
	if err := y.mover("n1").Send(t.Context(), a, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	y.remove("disk1/"+containerA, "disk2/"+containerA, "logs/"+containerA)
	defer func(d time.Duration) { machineTime = d }(machineTime)
	often := machineTime
	machineTime = 0
	y.o.CRIU = silent()
	b := y.launch(containerB)
	if _, err := y.mover("n2").Take(t.Context(), b); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "no memory") {
		t.Errorf("it was taken: %v", err)
	}
	y.wantState(Ready)
	machineTime = often
	y.o.CRIU = silent()
	y.mustTake(b, "n2")
}

// What a container has written to the directories that it was given goes on with it, whether it has it open or not, also when it
// moves once more.
func TestOwnDirectoriesComeAlong(t *testing.T) {
	y := newYard(t)
	a := y.launch(containerA)
	own := []string{"disk1/" + containerA + "/part.1", "disk2/" + containerA + "/spill/1", "logs/" + containerA + "/stdout", "logs/" + containerA + "/journal"}
	layout(t, y.top, own...)
	for _, hop := range []struct {
		from, to string
	}{{containerA, containerB}, {containerB, containerC}} {
		p := a
		if hop.from != containerA {
			p = y.launch(hop.from)
		}
		y.mustSend(p, containerA, "node-of-"+hop.from)
		for _, c := range []string{containerA, hop.from} {
			y.remove("disk1/"+c, "disk2/"+c, "logs/"+c)
		}
		next := y.launch(hop.to)
		taken := y.mustTake(next, "node-of-"+hop.to)
		if err := errors.Join(taken.Use(t.Context()), taken.End(t.Context(), nil)); err != nil {
			t.Fatal(err)
		}
		y.wantFiles(own...)
		if err := next.ShowLogs(taken.TaskDir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"stdout", "journal"} {
			if err := sameFile(filepath.Join(y.top, "logs", containerA, name), filepath.Join(y.top, "logs", hop.to, name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestComesAndGoes: a container leaves two machines in turn, on which only that goes which a NodeManager removes, and what is
// cleared; to its logs it adds on each. Log files that are no beginning of its own keep it away.
func TestComesAndGoes(t *testing.T) {
	defer func(d time.Duration) { removalTime = d }(removalTime)
	removalTime = 0
	y := newYard(t)
	machines := [2]string{filepath.Join(y.top, "here"), filepath.Join(y.top, "away")}
	swap := func() { // which of two machines it is that has the directories
		for _, dir := range []string{"disk1", "disk2", "logs"} {
			for _, move := range [][2]string{{y.top, machines[0]}, {machines[1], y.top}} {
				if err := errors.Join(os.MkdirAll(move[1], 0o700), os.Rename(filepath.Join(move[0], dir), filepath.Join(move[1], dir))); err != nil {
					t.Fatal(err)
				}
			}
		}
		machines[0], machines[1] = machines[1], machines[0]
	}
	layout(t, machines[1], "disk1/", "disk2/", "logs/")
	p := y.launch(containerA)
	stdout, part := filepath.Join(y.top, "logs", containerA, "stdout"), "disk2/"+containerA+"/part.1"
	layout(t, y.top, part)
	said, began := "", ""
	for hop := range 5 {
		line := fmt.Sprintf("line %d\n", hop)
		f, err := os.OpenFile(stdout, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err == nil {
			_, err = f.WriteString(line)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		said += line
		y.mustSend(p, containerA, fmt.Sprint("node", hop%2))
		y.remove("disk1/"+string(p.Task), "disk2/"+string(p.Task))
		if began != "" {
			if err := errors.Join(p.ShowLogs(began), p.Clear(began)); err != nil {
				t.Fatal(err)
			}
		}
		swap()
		p = y.launch(fmt.Sprintf("container_1_0001_01_%06d", 10+hop))
		taken := y.mustTake(p, fmt.Sprint("node", (hop+1)%2))
		if err := errors.Join(taken.Use(t.Context()), taken.End(t.Context(), nil)); err != nil {
			t.Fatal(err)
		}
		began = taken.TaskDir
		if b, err := os.ReadFile(stdout); string(b) != said || err != nil {
			t.Errorf("hop %d: it has said %q, %v", hop, b, err)
		}
		y.wantFiles(part)
	}
	y.mustSend(p, containerA, "node1")
	if err := p.Clear(began); err != nil {
		t.Fatal(err)
	}
	swap()
	if err := os.WriteFile(stdout, []byte("other\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := y.mover("node0").Take(t.Context(), y.launch(containerB)); !errors.Is(err, ErrConflict) {
		t.Errorf("with a log of another one: %v", err)
	}
	if b, err := os.ReadFile(stdout); string(b) != "other\n" || err != nil {
		t.Errorf("it has made that %q, %v", b, err)
	}
}

// ShowLogs leaves what YARN's own programs have written for the container, and adds what comes later.
func TestShowLogs(t *testing.T) {
	y := newYard(t)
	y.launch(containerA)
	b := y.launch(containerB)
	layout(t, y.top, "logs/"+containerA+"/stdout", "logs/"+containerA+"/prelaunch.out", "logs/"+containerA+"/link@stdout", "logs/"+containerB+"/prelaunch.out")
	for _, later := range []string{"stdout", "stdout.1"} {
		layout(t, y.top, "logs/"+containerA+"/stdout.1")
		if err := b.ShowLogs("/state/tasks/" + containerA); err != nil {
			t.Fatal(err)
		}
		y.wantFiles("logs/" + containerB + "/prelaunch.out")
		if err := sameFile(filepath.Join(y.top, "logs", containerA, later), filepath.Join(y.top, "logs", containerB, later)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(y.top, "logs", containerB, "link")); err == nil {
		t.Error("a link was followed, or copied")
	}
	y.remove("logs/" + containerB)
	if err := b.ShowLogs("/state/tasks/" + containerA); err != nil {
		t.Errorf("when YARN has removed its directory: %v", err)
	}
}

func sameFile(a, b string) error {
	one, err := os.Lstat(a)
	if err != nil {
		return err
	}
	other, err := os.Lstat(b)
	if err == nil && !os.SameFile(one, other) {
		err = fmt.Errorf("%s and %s are two files", a, b)
	}
	return err
}

// What lies beside the directories of containers may be anybody's: who might need it stays.
func TestFilesOfTheApplicationKeepIt(t *testing.T) {
	y := newYard(t)
	a := y.launch(containerA)
	layout(t, y.top, "disk1/filecache/10/lib", "disk1/"+containerB+"/other", "disk2/scratch/part.1")
	if err := y.send(a, containerA, "node1"); err == nil || !strings.Contains(err.Error(), "disk2/scratch") {
		t.Errorf("sent: %v", err)
	}
	y.needs.Open = []string{filepath.Join(y.top, "disk2/scratch/part.1")}
	y.mustSend(a, containerA, "node1")
}

// Where a container's directory is still, its NodeManager is about to remove it: it goes on there when that is done, or elsewhere.
func TestComesBack(t *testing.T) {
	defer func(d time.Duration) { removalTime = d }(removalTime)
	y := newYard(t)
	y.mustSend(y.launch(containerA), containerA, "node1")
	b := y.launch(containerB)
	y.remove("disk1/" + containerA)
	removalTime = 0
	if _, err := y.mover("node1").Take(t.Context(), b); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "disk2/"+containerA) {
		t.Errorf("taken: %v", err)
	}
	y.wantState(Ready)
	removalTime = time.Minute
	go os.RemoveAll(filepath.Join(y.top, "disk2", containerA))
	y.mustTake(b, "node1")
	// What an earlier daemon has fetched is there as well.
	removalTime = 0
	b.Again = true
	y.mustTake(b, "node1")
	y.wantState(Claimed)
}

// What is taken is used when its restore begins, and kept until then; what could not be restored for want of something is
// there for others.
func TestUsedLate(t *testing.T) {
	defer func(d time.Duration) { renewEvery = d }(renewEvery)
	renewEvery = time.Millisecond
	y := newYard(t)
	y.mustSend(y.launch(containerA), containerA, "node1")
	y.remove("disk1/"+containerA, "disk2/"+containerA)
	b := y.launch(containerB)
	var renewed atomic.Int32
	y.place.touch = func(string) { renewed.Add(1) }
	taken := y.mustTake(b, "node2")
	y.wantState(Claimed)
	fetched := renewed.Load()
	testkit.Await(t, "that it is renewed while it waits for its restore", func() bool { return renewed.Load() > fetched+2 })
	if err := taken.Use(t.Context()); err != nil {
		t.Fatal(err)
	}
	y.wantState(Used)
	for _, lack := range []error{proc.ErrNotNow, proc.ErrStalled, proc.ErrState} {
		if err := taken.End(t.Context(), fmt.Errorf("restore: %w", lack)); err != nil {
			t.Fatal(err)
		}
		y.wantState(Ready)
		if taken = y.mustTake(b, "node2"); taken.Use(t.Context()) != nil {
			t.Fatal("it cannot be used")
		}
	}
	if err := taken.End(t.Context(), proc.ErrNoImage); err != nil {
		t.Fatal(err)
	}
	if got := y.states(); len(got) > 0 {
		t.Errorf("there is left what nobody can restore: %v", got)
	}
}

// TestTakenUp: what a daemon has used when it dies is there for the next one, until nothing of it is left.
func TestTakenUp(t *testing.T) {
	y := newYard(t)
	y.mustSend(y.launch(containerA), containerA, "node1")
	y.remove("disk1/"+containerA, "disk2/"+containerA)
	b := y.launch(containerB)
	first := y.mustTake(b, "node2")
	if err := first.Use(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Again = true
	for _, end := range []error{proc.ErrState, proc.ErrNoImage} {
		taken := y.mustTake(b, "node2")
		if taken.From != first.From || taken.TaskDir != first.TaskDir || taken.Image.Seq != first.Image.Seq {
			t.Errorf("%+v, want %+v", taken, first)
		}
		if err := errors.Join(taken.Use(t.Context()), taken.End(t.Context(), fmt.Errorf("restore: %w", end))); err != nil {
			t.Error(err)
		}
		y.wantState(Used)
	}
	if _, err := y.mover("node2").Take(t.Context(), b); !errors.Is(err, ErrBegun) {
		t.Errorf("when it is not here any more: %v", err)
	}
}

// TestTakenUpWhileStoreIsAway: what was used is not gone because its store is, and nothing is made in the place of that.
func TestTakenUpWhileStoreIsAway(t *testing.T) {
	y := newYard(t)
	y.mustSend(y.launch(containerA), containerA, "node1")
	y.remove("disk1/"+containerA, "disk2/"+containerA)
	b := y.launch(containerB)
	var err error
	if b.StoreID, err = checkpoint.Mark(b.Store); err != nil {
		t.Fatal(err)
	}
	first := y.mustTake(b, "node2")
	if err := first.Use(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Again = true
	if err := os.Rename(b.Store, b.Store+".mounted"); err != nil {
		t.Fatal(err)
	}
	if _, err := y.mover("node2").Take(t.Context(), b); !errors.Is(err, proc.ErrNotNow) || errors.Is(err, ErrBegun) {
		t.Errorf("while its store is away: %v", err)
	}
	if err := y.mover("node2").Send(t.Context(), b, func() error { return nil }); !errors.Is(err, proc.ErrNotNow) {
		t.Errorf("sent while its store is away: %v", err)
	}
	if err := os.Rename(b.Store+".mounted", b.Store); err != nil {
		t.Fatal(err)
	}
	if taken := y.mustTake(b, "node2"); taken.Image.Seq != first.Image.Seq {
		t.Errorf("%+v, want %+v", taken, first)
	}
}

// TestTakenWhileStoreIsAway: what waits goes on waiting while the store that it is to come to is away, or goes in the middle.
func TestTakenWhileStoreIsAway(t *testing.T) {
	for _, when := range []string{"before", "again", "in the middle"} {
		t.Run(when, func(t *testing.T) {
			y := newYard(t)
			y.mustSend(y.launch(containerA), containerA, "node1")
			y.remove("disk1/"+containerA, "disk2/"+containerA)
			b := y.launch(containerB)
			var err error
			if b.StoreID, err = checkpoint.Mark(b.Store); err != nil {
				t.Fatal(err)
			}
			b.Again = when == "again"
			goes := sync.OnceFunc(func() {
				if err := os.Rename(b.Store, b.Store+".mounted"); err != nil {
					t.Error(err)
				}
			})
			y.place.read = func(name string, r io.ReadCloser) io.ReadCloser {
				if !strings.HasSuffix(name, manifestName) {
					goes()
				}
				return r
			}
			if when != "in the middle" {
				goes()
			}
			if _, err := y.mover("node2").Take(t.Context(), b); !errors.Is(err, proc.ErrNotNow) {
				t.Errorf("while its store is away: %v", err)
			}
			goes()
			if _, err := os.Stat(b.Store); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("in the place of the store is something: %v", err)
			}
			if err := os.Rename(b.Store+".mounted", b.Store); err != nil {
				t.Fatal(err)
			}
			y.mustTake(b, "node2")
		})
	}
}

// A connection that breaks off damages nothing: the entry stays for others. What is shorter than it was is damaged.
func TestConnectionBreaksOff(t *testing.T) {
	y := newYard(t)
	y.mustSend(y.launch(containerA), containerA, "node1")
	y.remove("disk1/"+containerA, "disk2/"+containerA)
	b := y.launch(containerB)
	for what, broken := range map[string]brokenOff{
		"in the middle":         {after: 100, err: io.ErrUnexpectedEOF},
		"as if it were the end": {after: 100, err: io.EOF},
		"at the end":            {after: 1 << 40, err: io.ErrUnexpectedEOF},
		"by the daemon's end":   {after: 1 << 40, err: context.Canceled},
	} {
		y.place.read = func(name string, r io.ReadCloser) io.ReadCloser {
			if strings.HasSuffix(name, manifestName) {
				return r
			}
			of := broken
			of.ReadCloser = r
			return &of
		}
		if _, err := y.mover("node2").Take(t.Context(), b); err == nil || errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		y.wantState(Ready)
	}
	y.place.read = nil
	if parts, err := filepath.Glob(y.place.String() + "/ready/*/" + partName(0)); err != nil || len(parts) != 1 || os.Truncate(parts[0], 100) != nil {
		t.Fatal(parts, err)
	}
	if _, err := y.mover("node2").Take(t.Context(), b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("it was cut: %v", err)
	}
	if got := y.states(); len(got) > 0 {
		t.Errorf("there is left what is damaged: %v", got)
	}
}

// brokenOff is a connection that ends after some bytes, or, if there are fewer, in place of the end.
type brokenOff struct {
	io.ReadCloser
	after int
	err   error
}

func (b *brokenOff) Read(p []byte) (int, error) {
	if b.after == 0 {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.after)])
	if b.after -= n; err == io.EOF {
		err = b.err
	}
	return n, err
}

// TestSweepEnded: what waits for an application that has ended for good is removed, and nothing else: not what waits for others, nor
// for some of which nobody knows, nor what somebody has claimed. One round does a bounded part.
func TestSweepEnded(t *testing.T) {
	defer func(most int) { mostSwept = most }(mostSwept)
	mostSwept = 10
	place := newDir(t)
	a := newArchive(t, place, Options{})
	put := func(key, app string) string {
		d := describe(key)
		d.App = app
		m, err := a.Put(t.Context(), NewID(), d, addBytes(t, "x", []byte("contents")))
		if err != nil {
			t.Fatal(err)
		}
		return m.ID
	}
	var ended, asked []string
	var unknown error
	m := &Mover{
		Name: "archive", Open: func(context.Context) (*Archive, error) { return a, nil },
		Ended: func(_ context.Context, of []string) ([]string, error) {
			asked = of
			return ended, unknown
		},
	}
	round := func() map[string]State {
		t.Helper()
		if err := m.Sweep(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		return statesOf(t, a)
	}
	over, other, held := put("over", "application_1"), put("other", "application_2"), put("held", "application_3")
	claim, err := a.Claim(t.Context(), want("held"))
	if err != nil {
		t.Fatal(err)
	}
	if got := round(); len(got) != 3 || !slices.Equal(asked, []string{"application_1", "application_2"}) {
		t.Errorf("none has ended, and there are %v; asked about %q", got, asked)
	}
	ended, unknown = []string{"application_1", "application_3"}, errors.New("the manager is away")
	if got := round(); len(got) != 3 {
		t.Errorf("nobody knows, and there are %v", got)
	}
	unknown = nil
	if got := round(); len(got) != 2 || got[over] != "" || got[other] != Ready || got[held] != Claimed {
		t.Errorf("there are %v", got)
	}
	if err := claim.Return(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := round(); len(got) != 1 || got[other] != Ready {
		t.Errorf("what was claimed is offered again, and there are %v", got)
	}
	for range mostSwept + 5 {
		put("many", "application_1")
	}
	m.applications = nil // as of a node that was started again
	if got := round(); len(got) < 6 || len(got) > 7 {
		t.Errorf("one round has left %d", len(got))
	}
	if got := round(); len(got) != 1 || got[other] != Ready {
		t.Errorf("two rounds have left %d", len(got))
	}
}
