package solo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/internal/testkit"
	"headrace/migrate"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/wire"
)

// shelf is an archive in memory.
type shelf struct {
	world *world
	// dead: the daemon was killed, and does nothing any more.
	dead func() bool

	mu      sync.Mutex
	ready   map[string]migrate.Parcel // by id
	claimed map[string]migrate.Parcel // before they are used
	used    map[string]migrate.Parcel
	ended   []error // what the ends of what was taken were told
	refuses error   // what Send says
	// taking, if not nil, gets an element when Take begins, which then waits for its
	// context.
	taking chan struct{}
	// away is how often Take is not possible.
	away int
	// begun is what Take says to who asks again.
	begun error
	// sending, if not nil, gets an element when Send begins, which then waits for its
	// context, and, if there is one, for stuck.
	sending, stuck chan struct{}
	// withdrawing, if not nil, has room for one element, which the first Withdraw puts there: that waits for stuck.
	withdrawing chan struct{}
}

func newShelf(w *world) *shelf {
	return &shelf{world: w, ready: map[string]migrate.Parcel{}, claimed: map[string]migrate.Parcel{}, used: map[string]migrate.Parcel{}}
}

func (s *shelf) String() string { return "shelf" }

func (s *shelf) Send(ctx context.Context, p migrate.Parcel, begun func() error) error {
	if s.sending != nil {
		s.sending <- struct{}{}
		<-ctx.Done()
		if s.stuck == nil {
			return ctx.Err()
		}
		<-s.stuck
	}
	if err := begun(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses == nil || errors.Is(s.refuses, migrate.ErrUnclear) {
		s.ready[p.ID] = p
	}
	return s.refuses
}

func (s *shelf) Withdraw(_ context.Context, id string) error {
	select {
	case s.withdrawing <- struct{}{}:
		<-s.stuck
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ready[id]; !ok {
		return migrate.ErrElsewhere
	}
	delete(s.ready, id)
	return nil
}

func (s *shelf) Take(ctx context.Context, p migrate.Parcel) (migrate.Taken, error) {
	if s.taking != nil {
		s.taking <- struct{}{}
		<-ctx.Done()
		return migrate.Taken{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away > 0 {
		s.away--
		return migrate.Taken{}, proc.ErrNotNow
	}
	if p.Again && s.begun != nil {
		s.world.with(p.Task, func(x *thing) { x.images[p.Store] = []ImageInfo{{Seq: 1, Chain: 1}} })
		return migrate.Taken{}, s.begun
	}
	if p.Again { // what a dead daemon had claimed, and not used
		maps.Copy(s.ready, s.claimed)
		clear(s.claimed)
	}
	for id, q := range s.used {
		if p.Again && q.Application == p.Application { // what a dead daemon had used is there still
			end := func(_ context.Context, failed error) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ended = append(s.ended, failed)
				delete(s.used, id)
				return nil
			}
			im := &checkpoint.Image{Seq: 1, Chain: 1, Size: 5 << 20}
			return migrate.Taken{From: string(q.Task) + " on far", TaskDir: "/far/" + string(q.Task), Image: im, Use: func(context.Context) error { return nil }, End: end}, nil
		}
	}
	for id, q := range s.ready {
		if q.Application != p.Application {
			continue
		}
		delete(s.ready, id)
		s.claimed[id] = q
		im := &checkpoint.Image{Seq: 1, Chain: 1, Size: 5 << 20}
		s.world.with(p.Task, func(t *thing) { t.images[p.Store] = []ImageInfo{imageInfo(im)} })
		end := func(ctx context.Context, failed error) error {
			if s.dead() {
				return nil
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ended = append(s.ended, failed)
			delete(s.claimed, id)
			if (errors.Is(failed, proc.ErrState) || errors.Is(failed, proc.ErrNotNow)) && ctx.Err() == nil {
				s.ready[id] = q
			}
			if failed != nil {
				s.world.with(p.Task, func(x *thing) { delete(x.images, p.Store) })
			}
			return nil
		}
		use := func(context.Context) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.claimed, id)
			s.used[id] = q
			return nil
		}
		return migrate.Taken{From: string(q.Task) + " on far", TaskDir: "/far/" + string(q.Task), Image: im, Use: use, End: end}, nil
	}
	return migrate.Taken{}, migrate.ErrNothing
}

func (s *shelf) Problem() string { return "" }

const otherContainer = "container_e17_1763700000000_0001_01_000003"

func newShelfBed(t *testing.T) (*hostBed, *shelf) {
	b := newHostBed(t)
	b.shutdown()
	s := newShelf(b.world)
	s.dead = func() bool { return b.conn.dead() }
	b.cfg.Elsewhere = s
	b.start()
	return b, s
}

// A container for which something is being fetched when the daemon ends has been let
// go by its process: nobody is told that it runs without Headrace, and the next daemon
// starts it.
func TestEndsWhileFetching(t *testing.T) {
	b, s := newShelfBed(t)
	b.shutdown()
	s.taking = make(chan struct{}, 1)
	var log lockedBuffer
	b.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	b.start()
	b.prepare(someContainer)
	conn := b.knock(someContainer, false)
	defer conn.Close()
	<-s.taking
	b.shutdown()
	if said := log.String(); strings.Contains(said, "without Headrace") || strings.Contains(said, "from the beginning") {
		t.Errorf("the log says:\n%s", said)
	}
	b.world.with(someContainer, func(x *thing) {
		if x.exit != nil {
			t.Errorf("it was ended: %+v", *x.exit)
		}
	})
	s.taking = nil
	b.start()
	b.awaitState(someContainer, headrace.Running)
}

// What is fetched for a container that is killed meanwhile is given up, also if the archive brings nothing more of it.
func TestKilledWhileFetching(t *testing.T) {
	b, s := newShelfBed(t)
	taking := make(chan struct{}, 1)
	b.ends(func() { s.taking = taking }, func() bool { return len(taking) > 0 }, func() {
		b.abandon(otherContainer)
		task := b.awaitState(otherContainer, headrace.Killed)
		ran := slices.ContainsFunc(task.History, func(e *wire.Event) bool { return e.State == "running" })
		if ran || !strings.Contains(task.Reason, "ended by yarn") {
			t.Errorf("%v", task)
		}
	})
}

// ends has a container be archived, and the process of another one come that is to go on from there. before is done before it
// comes; when the daemon is at it, it ends, as end has it.
func (b *hostBed) ends(before func(), at func() bool, end func()) {
	b.t.Helper()
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "archive")
	before()
	b.prepare(otherContainer)
	conn := b.knock(otherContainer, false)
	defer conn.Close()
	testkit.Await(b.t, "the restore", at)
	end()
}

// A daemon that ends while a supervisor restores what was fetched leaves it what it needs for that.
func TestEndsWhileRestoring(t *testing.T) {
	b, s := newShelfBed(t)
	begun := make(chan struct{})
	b.conn.restoring = func(headrace.TaskID) <-chan struct{} { close(begun); return nil }
	b.ends(func() {}, func() bool { return isClosed(begun) }, b.shutdown)
	if len(s.ended) > 0 {
		t.Errorf("what was fetched was ended: %v", s.ended)
	}
	b.world.with(otherContainer, func(x *thing) { x.shim.state = headrace.Running }) // the supervisor has done it
	b.start()
	b.awaitState(otherContainer, headrace.Running)
	b.world.with(otherContainer, func(x *thing) {
		if x.starts != 0 || len(x.images) == 0 {
			t.Errorf("%d starts, checkpoints %v", x.starts, x.images)
		}
	})
}

// A daemon that ends, or dies, while what it has fetched waits for its turn at the disk has used nothing: the next one goes on
// from it.
func TestEndsBeforeItsTurn(t *testing.T) {
	t.Run("ends", func(t *testing.T) { endsBeforeItsTurn(t, (*hostBed).shutdown) })
	t.Run("dies", func(t *testing.T) { endsBeforeItsTurn(t, (*hostBed).crash) })
}

func endsBeforeItsTurn(t *testing.T, end func(*hostBed)) {
	b, s := newShelfBed(t)
	dumping, atOnce := make(chan struct{}), make(chan struct{})
	close(atOnce)
	b.conn.dumping = func(id headrace.TaskID) <-chan struct{} {
		if id == someContainer {
			return atOnce
		}
		close(dumping)
		return nil
	}
	local := b.run(headrace.High)
	b.awaitState(local, headrace.Running)
	b.ends(func() {
		go b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(local)}) // has the disk until the daemon ends
		<-dumping
	}, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.claimed) > 0
	}, func() { end(b) })
	if len(s.used) > 0 {
		t.Error("it was used before its turn")
	}
	b.start()
	task := b.awaitState(otherContainer, headrace.Running)
	if !strings.Contains(task.Reason, "goes on where it was on "+someContainer) || task.Checkpoint == nil {
		t.Errorf("%v", task)
	}
}

// A daemon that dies before what it had used, and could not restore, is tried again leaves that to the next one.
func TestDiesBeforeItTriesAgain(t *testing.T) {
	defer func(p []time.Duration) { restorePauses = p }(restorePauses)
	restorePauses = []time.Duration{time.Hour}
	b, s := newShelfBed(t)
	var failed atomic.Bool
	b.conn.restoring = func(id headrace.TaskID) <-chan struct{} {
		b.world.with(id, func(x *thing) { x.noRestore = proc.ErrNotNow })
		failed.Store(true)
		atOnce := make(chan struct{})
		close(atOnce)
		return atOnce
	}
	b.ends(func() {}, failed.Load, b.crash)
	if len(s.used) != 1 {
		t.Errorf("used: %v", s.used)
	}
	b.world.with(otherContainer, func(x *thing) { x.noRestore = nil })
	b.start()
	task := b.awaitState(otherContainer, headrace.Running)
	if !strings.Contains(task.Reason, "goes on where it was on "+someContainer) || task.Checkpoint == nil {
		t.Errorf("%v", task)
	}
	b.world.with(otherContainer, func(x *thing) {
		if x.starts != 0 {
			t.Errorf("%d starts", x.starts)
		}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// fetching has a daemon die while it fetches the checkpoint of a container for
// another one.
func (b *hostBed) fetching(s *shelf) {
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "archive")
	s.taking = make(chan struct{}, 1)
	b.prepare(otherContainer)
	conn := b.knock(otherContainer, false)
	defer conn.Close()
	<-s.taking
	b.crash()
	s.taking = nil
}

// The daemon dies while it fetches: the next one fetches again.
func TestFetchedAgain(t *testing.T) {
	b, s := newShelfBed(t)
	b.fetching(s)
	b.start()
	task := b.awaitState(otherContainer, headrace.Running)
	if !strings.Contains(task.Reason, "goes on where it was on "+someContainer) || task.Checkpoint == nil {
		t.Errorf("%v", task)
	}
}

// The daemon dies when it may have begun to restore what it has fetched: if nothing
// has come of it, the command starts from the beginning, and that is said.
func TestBegunToRestore(t *testing.T) {
	b, s := newShelfBed(t)
	b.fetching(s)
	s.begun = migrate.ErrBegun
	b.start()
	task := b.awaitState(otherContainer, headrace.Running)
	if !strings.Contains(task.Reason, "starts from the beginning") || !strings.Contains(task.Reason, migrate.ErrBegun.Error()) {
		t.Errorf("%v", task)
	}
	b.awaitNoImages(otherContainer)
}

// lockedBuffer is a log that is written by many.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestMovesElsewhere(t *testing.T) {
	b, _ := newShelfBed(t)
	id := b.launch(someContainer)
	if err := b.order(id, "archive"); err == nil {
		t.Error("a running container was archived")
	}
	b.mustOrder(id, "checkpoint")
	if b.is(id, headrace.Checkpointed).Archived {
		t.Error("archived without an order")
	}
	b.mustOrder(id, "archive")
	if !b.is(id, headrace.Checkpointed).Archived {
		t.Error("not archived")
	}
	b.mustOrder(id, "archive") // it is so already
	b.abandon(id)
	b.awaitState(id, headrace.Killed)

	next := b.launch(otherContainer)
	task := b.is(next, headrace.Running)
	if !strings.Contains(task.Reason, "goes on where it was on "+someContainer) || task.Checkpoint == nil {
		t.Errorf("%v", task)
	}
	b.mustOrder(next, "checkpoint")
	b.mustOrder(next, "resume")
	b.finish(next, 0)
	b.awaitState(next, headrace.Done)
	b.awaitNoImages(next)
}

// What nobody else has taken goes on here; what somebody has does not.
func TestArchivedResumedHere(t *testing.T) {
	b, s := newShelfBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "archive")
	b.mustOrder(id, "resume")
	if b.is(id, headrace.Running).Archived || len(s.ready) != 0 {
		t.Error("its checkpoint can still be taken")
	}
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "archive")
	b.launch(otherContainer) // takes it
	if err := b.order(id, "resume"); err == nil {
		t.Error("it runs twice")
	}
	b.is(id, headrace.Checkpointed)
}

func TestArchiveFails(t *testing.T) {
	b, s := newShelfBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	s.refuses = os.ErrPermission
	if err := b.order(id, "archive"); err == nil {
		t.Error("no error")
	}
	b.mustOrder(id, "resume") // nobody can have it
	b.mustOrder(id, "checkpoint")
	s.mu.Lock()
	s.refuses = migrate.ErrUnclear
	s.mu.Unlock()
	if err := b.order(id, "archive"); err == nil || b.is(id, headrace.Checkpointed).Archived {
		t.Errorf("unclear: %v", err)
	}
	b.crash() // the daemon remembers that it is unclear
	b.start()
	b.awaitState(id, headrace.Checkpointed)
	s.mu.Lock()
	s.refuses = nil
	s.mu.Unlock()
	b.mustOrder(id, "archive")
	if n := len(s.ready); n != 1 {
		t.Errorf("%d copies", n)
	}
	b.launch(otherContainer)
	b.crash()
	b.start()
	b.awaitState(id, headrace.Checkpointed)
	if err := b.order(id, "resume"); err == nil {
		t.Error("it runs twice after a restart of the daemon")
	}
}

// TestForeignText: what failed because of a file whose name is not UTF-8 can be told to the manager and to people.
func TestForeignText(t *testing.T) {
	b, s := newShelfBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	s.refuses = errors.New("stat d/\xff: permission denied")
	if err := b.order(id, "archive"); err == nil {
		t.Error("no error")
	}
	_, tasks := b.daemon.Host().Facts()
	if _, err := proto.Marshal(&wire.NodeReport{Tasks: tasks}); err != nil || !strings.Contains(tasks[0].Reason, "d/\uFFFD: permission denied") {
		t.Errorf("%q: %v", tasks[0].Reason, err)
	}
	task := b.is(id, headrace.Checkpointed)
	if last := task.History[len(task.History)-1]; !strings.Contains(last.Reason, "d/\uFFFD: permission denied") {
		t.Errorf("the history ends with %v", last)
	}
}

// A daemon dies before there is anything of a checkpoint elsewhere.
func TestDiesBeforeSending(t *testing.T) {
	for _, next := range []string{"archive", "resume"} {
		b, s := newShelfBed(t)
		id := b.launch(someContainer)
		b.mustOrder(id, "checkpoint")
		s.sending = make(chan struct{}, 1)
		ordered := make(chan error, 1)
		go func() { ordered <- b.order(id, "archive") }()
		<-s.sending
		b.crash()
		<-ordered
		s.sending = nil
		b.start()
		b.awaitState(id, headrace.Checkpointed)
		b.mustOrder(id, next)
	}
}

// What comes and cannot be restored is started from the beginning, and it shows.
func TestMovedStartsAfresh(t *testing.T) {
	b, _ := newShelfBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "archive")
	b.world.with(otherContainer, func(x *thing) { x.noRestore = os.ErrInvalid })
	next := b.launch(otherContainer)
	task := b.is(next, headrace.Running)
	if !strings.Contains(task.Reason, "starts from the beginning") || task.Checkpoint != nil {
		t.Errorf("%v", task)
	}
	b.world.with(next, func(x *thing) {
		if x.starts != 1 {
			t.Errorf("%d starts", x.starts)
		}
	})
}

// What cannot be taken at the moment is tried again.
func TestTakenWhenItsStoreIsBack(t *testing.T) {
	defer func(p []time.Duration) { restorePauses = p }(restorePauses)
	restorePauses = []time.Duration{time.Millisecond, time.Millisecond}
	b, s := newShelfBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "archive")
	s.away = 2
	if task := b.is(b.launch(otherContainer), headrace.Running); !strings.Contains(task.Reason, "goes on where it was on "+someContainer) {
		t.Error(task)
	}
}

// What the machine cannot restore at the moment is tried again; what it never can stays for others.
func TestMovedTriedAgain(t *testing.T) {
	defer func(p []time.Duration) { restorePauses = p }(restorePauses)
	restorePauses = []time.Duration{time.Millisecond, time.Millisecond}
	for failures, want := range map[int]string{2: "goes on where it was on " + someContainer, 3: "starts from the beginning"} {
		b, s := newShelfBed(t)
		id := b.launch(someContainer)
		b.mustOrder(id, "checkpoint")
		b.mustOrder(id, "archive")
		left, atOnce := failures, make(chan struct{})
		close(atOnce)
		b.conn.restoring = func(id headrace.TaskID) <-chan struct{} {
			b.world.with(id, func(x *thing) {
				if x.noRestore = nil; left > 0 {
					x.noRestore = proc.ErrNotNow
				}
			})
			left--
			return atOnce
		}
		next := b.launch(otherContainer)
		if task := b.is(next, headrace.Running); !strings.Contains(task.Reason, want) {
			t.Errorf("after %d failures: %v", failures, task)
		}
		s.mu.Lock()
		if gone := len(s.ready) == 0; gone != (failures == 2) {
			t.Errorf("after %d failures there is left: %v", failures, s.ready)
		}
		s.mu.Unlock()
		b.shutdown()
	}
}

// What is being sent does not hold up its container: it goes on, or ends, when that is wanted, and nothing of it is sent any more,
// even if the archive neither takes it nor lets go of who sends it.
func TestSendingIsCalledOff(t *testing.T) {
	defer func(d time.Duration) { sendEnds = d }(sendEnds)
	sendEnds = time.Millisecond
	for _, hangs := range []bool{false, true} {
		for _, wanted := range []string{"resume", "kill", "end"} {
			b, s := newShelfBed(t)
			s.sending = make(chan struct{}, 1)
			if hangs {
				s.stuck = make(chan struct{})
			}
			id := b.launch(someContainer)
			b.mustOrder(id, "checkpoint")
			ordered := make(chan error, 1)
			go func() { ordered <- b.order(id, "archive") }()
			<-s.sending
			switch wanted {
			case "resume":
				b.mustOrder(id, "resume")
				b.is(id, headrace.Running)
			case "kill":
				if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
					t.Fatal(err)
				}
				b.awaitState(id, headrace.Killed)
			case "end":
				b.abandon(id)
				b.awaitState(id, headrace.Killed)
			}
			if err := <-ordered; err == nil {
				t.Errorf("%s: it was archived", wanted)
			}
			if hangs {
				close(s.stuck)
			}
			b.shutdown()
			s.mu.Lock()
			if len(s.ready) > 0 {
				t.Errorf("%s: others may have it: %v", wanted, s.ready)
			}
			s.mu.Unlock()
		}
	}
}

// An archive that hangs while a checkpoint is taken back from it holds up neither a kill nor the end of the container.
func TestTakingBackIsCalledOff(t *testing.T) {
	for _, wanted := range []string{"kill", "end"} {
		b, s := newShelfBed(t)
		s.withdrawing, s.stuck = make(chan struct{}, 1), make(chan struct{})
		id := b.launch(someContainer)
		b.mustOrder(id, "checkpoint")
		b.mustOrder(id, "archive")
		ordered := make(chan error, 1)
		go func() { ordered <- b.order(id, "resume") }()
		testkit.Await(t, "the resume", func() bool { return len(s.withdrawing) == 1 })
		if wanted == "end" {
			b.abandon(id)
		} else if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
			t.Fatal(err)
		}
		b.awaitState(id, headrace.Killed)
		if err := <-ordered; err == nil {
			t.Errorf("%s: it was resumed", wanted)
		}
		close(s.stuck)
		b.shutdown()
	}
}

// What came with a container from another machine goes when it has ended: else it could not come again.
func TestClearedAtTheEnd(t *testing.T) {
	b, _ := newShelfBed(t)
	top := t.TempDir()
	file := filepath.Join(top, someContainer, "sub", "file")
	for _, name := range []string{file, filepath.Join(top, "others")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	b.env = []string{"LOCAL_DIRS=" + top}
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "archive")
	next := b.launch(otherContainer)
	b.is(next, headrace.Running)
	if _, err := os.Stat(file); err != nil {
		t.Fatal("it went too early:", err)
	}
	b.finish(next, 0)
	b.awaitState(next, headrace.Done)
	testkit.Await(t, "the end of its files", func() bool {
		_, err := os.Stat(filepath.Join(top, someContainer))
		return errors.Is(err, os.ErrNotExist)
	})
	if _, err := os.Stat(filepath.Join(top, "others")); err != nil {
		t.Error(err)
	}
}

// What a user kills does not go on elsewhere.
func TestKilledWhileArchived(t *testing.T) {
	b, s := newShelfBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	b.mustOrder(id, "archive")
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Killed)
	if len(s.ready) > 0 {
		t.Errorf("others may have it: %v", s.ready)
	}
}

// A daemon without the archive says so where a container may be in it, and serves on.
func TestWithoutItsArchive(t *testing.T) {
	b, s := newShelfBed(t)
	id := b.launch(someContainer)
	b.mustOrder(id, "checkpoint")
	s.refuses = migrate.ErrUnclear
	if err := b.order(id, "archive"); err == nil {
		t.Error("no error")
	}
	b.shutdown()
	b.cfg.Elsewhere = nil
	b.start()
	for _, verb := range []string{"resume", "archive"} {
		if err := b.order(id, verb); err == nil || !strings.Contains(err.Error(), "--archive") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	b.is(id, headrace.Checkpointed)
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	b.awaitState(id, headrace.Killed)
}

// A daemon that dies between the word that a command will be started and its start
// starts it when it is back.
func TestHeldIsStarted(t *testing.T) {
	b, _ := newShelfBed(t)
	b.shutdown()
	held := make(chan struct{})
	c := &conn{world: b.world}
	c.before = func(op string, _ headrace.TaskID) error {
		if op == "start held" {
			c.cut()
			close(held)
		}
		return nil
	}
	if err := b.startWith(c); err != nil {
		t.Fatal(err)
	}
	b.host = hostClient(b.cfg.StateDir)
	b.prepare(someContainer)
	conn := b.knock(someContainer, false) // nobody answers it
	defer conn.Close()
	<-held
	b.crash()
	b.start()
	b.awaitState(someContainer, headrace.Running)
}

// Nobody but its scheduler sends a container away.
func TestArchiveHeld(t *testing.T) {
	b, _ := newShelfBed(t)
	id := b.launch(someContainer)
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	if err := b.order(id, "archive"); err == nil || !strings.Contains(err.Error(), "held") {
		t.Errorf("%v", err)
	}
}
