package block

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"headrace/internal/vfs"
)

var seeds = flag.Int("seeds", 1000, "how many lives of a store are simulated")

// version is what a block may be found to be.
type version struct {
	exists  bool
	stamp   uint64
	content []byte // all that was written
	visible int    // what was flushed of it
}

// known is what the oracle knows of a block: the version that is durable, those since,
// the last of which is what a process sees, and one that an operation would have made
// which was cut off.
type known struct {
	id       int64
	file     uint64
	capacity int
	versions []version
	maybe    *version
	state    State
	recovery uint64
	fenced   bool // a recovery was begun, or may have been
	w        *Writer
	copying  *Writer // of another replica, which has copied
	copied   version
}

func (k *known) now() *version { return &k.versions[len(k.versions)-1] }

// life is one store with its oracle.
type life struct {
	t       testing.TB
	seed    uint64
	rand    *rand.Rand
	mem     *vfs.Mem
	s       *Store
	blocks  []*known
	stamp   uint64
	log     []string
	left    int    // operations of the file system until it dies
	point   string // or where
	dead    bool
	power   bool // was lost, and not all has been looked at since
	boot    uint64
	whole   int            // blocks that were found to have lost nothing
	passed  map[string]int // crashes at points, of all lives
	dirs    []string
	syncing bool
}

func (l *life) fatalf(format string, args ...any) {
	l.t.Helper()
	for _, line := range l.log {
		l.t.Log(line)
	}
	l.t.Fatalf("seed %d: "+format, append([]any{l.seed}, args...)...)
}

func (l *life) note(format string, args ...any) { l.log = append(l.log, fmt.Sprintf(format, args...)) }

func (l *life) open() {
	l.t.Helper()
	fs := &vfs.Faulty{FS: l.mem, Fail: func(op vfs.Op) error {
		if l.left > 0 {
			if l.left--; l.left == 0 {
				l.kill("before " + op.Kind + " " + op.Name)
			}
		}
		return nil
	}}
	s, err := Open(Config{Dirs: l.dirs, FS: fs, Patience: time.Minute, Since: always(l.boot), SyncOnClose: l.syncing, piece: 2 * page, point: func(p string) {
		if p == l.point {
			l.passed[p]++
			l.kill("at " + p)
		}
	}})
	if err != nil {
		if l.dead {
			return
		}
		l.fatalf("open: %v", err)
	}
	l.s = s
}

func (l *life) kill(where string) {
	l.note("-- dies %s", where)
	l.mem.Kill()
	l.dead, l.point, l.left = true, "", 0
}

// try runs an operation that makes a block a version, for good if it is durable.
func (l *life) try(k *known, what string, v version, durable bool, f func() error) bool {
	l.t.Helper()
	k.maybe = &v
	err := f()
	l.note("%s block %d stamp %d len %d/%d: %v", what, k.id, v.stamp, v.visible, len(v.content), err)
	if l.dead {
		return false
	}
	k.maybe = nil
	if err != nil {
		l.fatalf("%s of block %d: %v", what, k.id, err)
	}
	if durable {
		k.versions = nil
	}
	k.versions = append(k.versions, v)
	return true
}

func (l *life) bytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(l.rand.Uint32())
	}
	return p
}

func (l *life) next() uint64 { l.stamp++; return l.stamp }

func (l *life) create() {
	k := &known{id: int64(len(l.blocks) + 1), file: uint64(1 + l.rand.IntN(3)), capacity: 1 + l.rand.IntN(5*page), state: Writing}
	l.blocks = append(l.blocks, k)
	k.versions = []version{{}}
	v := version{exists: true, stamp: l.next()}
	if l.rand.IntN(4) == 0 {
		v.content = l.bytes(l.rand.IntN(k.capacity + 1))
		v.visible = len(v.content)
		l.try(k, "keep a copy", v, false, func() (err error) {
			if k.w, err = l.s.Create(Block{k.id, v.stamp}, k.file, int64(k.capacity), true); err != nil {
				return err
			}
			return errors.Join(k.w.Write(v.content, 0), k.w.Keep())
		})
		return
	}
	l.try(k, "create", v, false, func() (err error) {
		k.w, err = l.s.Create(Block{k.id, v.stamp}, k.file, int64(k.capacity), false)
		return err
	})
}

// copy makes a replica again beside the one that is there, and replaces it.
func (l *life) copy(k *known) {
	v := *k.now()
	v.stamp = l.next()
	l.try(k, "copy", v, true, func() error {
		w, err := l.s.Create(Block{k.id, v.stamp}, k.file, int64(k.capacity), true)
		if err != nil {
			return err
		}
		defer w.Close()
		if err := w.Write(v.content, 0); err != nil {
			return err
		}
		return w.Finalize(int64(len(v.content)))
	})
}

// begin begins a replica of a closed block beside the one that is there, in the midst of what is done to others.
func (l *life) begin(k *known) {
	k.copied = *k.now()
	k.copied.stamp = l.next()
	w, err := l.s.Create(Block{k.id, k.copied.stamp}, k.file, int64(k.capacity), true)
	if err == nil {
		k.copying, err = w, w.Write(k.copied.content, 0)
	}
	l.note("begin a copy of block %d stamp %d: %v", k.id, k.copied.stamp, err)
	if err != nil && !l.dead {
		l.fatalf("begin a copy of block %d: %v", k.id, err)
	}
}

// end has that replace the other one, if that is as it was.
func (l *life) end(k *known) {
	w, now := k.copying, k.now()
	k.copying = nil
	if k.state == Final && now.stamp < k.copied.stamp && bytes.Equal(now.content, k.copied.content) {
		l.try(k, "end a copy", k.copied, true, func() error { return w.Finalize(int64(len(k.copied.content))) })
		return
	}
	err := w.Close()
	l.note("give up a copy of block %d: %v", k.id, err)
	if err != nil && !l.dead {
		l.fatalf("give up a copy of block %d: %v", k.id, err)
	}
}

// step does one thing to one block.
func (l *life) step() {
	if len(l.blocks) == 0 || l.rand.IntN(8) == 0 {
		l.create()
		return
	}
	k := l.blocks[l.rand.IntN(len(l.blocks))]
	if k.copying != nil && l.rand.IntN(3) == 0 {
		l.end(k)
		return
	}
	now := *k.now()
	if !now.exists {
		return
	}
	b := Block{k.id, now.stamp}
	flushed := now
	flushed.content = now.content[:now.visible:now.visible]
	switch op := l.rand.IntN(20); {
	case op < 7 && k.w != nil:
		n := min(l.rand.IntN(3*page), k.capacity-len(now.content))
		v, p := now, l.bytes(n)
		v.content = slices.Concat(now.content, p)
		again := l.rand.IntN(min(len(now.content), 700) + 1) // sent again
		l.try(k, "write", v, false, func() error {
			return k.w.Write(v.content[len(now.content)-again:], int64(len(now.content)-again))
		})
	case op < 9 && k.w != nil:
		v := now
		v.visible = len(v.content)
		l.try(k, "flush", v, false, k.w.Flush)
	case op < 12 && k.w != nil:
		v := now
		v.visible = len(v.content)
		l.try(k, "sync", v, true, k.w.Sync)
	case op == 12 && k.w != nil:
		v := now
		v.visible = len(v.content)
		if l.try(k, "finalize", v, l.syncing, func() error { return k.w.Finalize(int64(len(v.content))) }) {
			k.state, k.w = Final, nil
		}
	case op == 12 && k.state == Final && k.copying == nil && l.rand.IntN(2) == 0:
		l.begin(k)
	case op == 12 && k.state == Final && k.copying == nil:
		l.copy(k)
	case op == 13 && k.w != nil:
		k.w.Close()
		k.w = nil
		l.note("close block %d", k.id)
	case op == 14 && (k.state == Writing || k.state == Waiting):
		flushed.stamp = l.next()
		if l.try(k, "recover", flushed, false, func() (err error) {
			k.w, err = l.s.Recover(b, flushed.stamp, int64(now.visible), int64(now.visible))
			return err
		}) {
			k.state = Writing
		}
	case op == 15 && k.state != Recovering && k.state != 0:
		if k.state != Final || k.fenced || l.rand.IntN(4) > 0 {
			flushed.stamp = l.next()
		}
		if l.try(k, "append", flushed, false, func() (err error) {
			k.w, err = l.s.Append(b, flushed.stamp, int64(now.visible))
			return err
		}) {
			k.state = Writing
		}
	case op == 16 && k.state != Recovering:
		flushed.stamp = l.next()
		if l.try(k, "complete", flushed, true, func() error { return l.s.Complete(b, flushed.stamp, int64(now.visible)) }) {
			k.state, k.w = Final, nil
		}
	case op == 17 && k.state != Recovering:
		l.startRecovery(k, b, now)
	case k.state == Recovering:
		v := flushed
		v.stamp = k.recovery
		v.visible = l.rand.IntN(now.visible + 1)
		v.content = v.content[:v.visible:v.visible]
		if l.try(k, "finish recovery", v, true, func() error { return l.s.FinishRecovery(b, k.recovery, int64(v.visible)) }) {
			k.state = Final
		}
	case op == 18 && l.rand.IntN(3) == 0:
		if l.try(k, "delete", version{}, false, func() error { return l.s.Delete(b) }) {
			k.state, k.w = 0, nil
		}
	case op == 19:
		l.store()
	default:
		l.check(k, false)
	}
}

func (l *life) startRecovery(k *known, b Block, now version) {
	recovery := l.next()
	old := k.w
	k.fenced = true
	l.try(k, "start recovery", now, false, func() error {
		info, err := l.s.StartRecovery(b, recovery)
		if err == nil && (info.Length != int64(now.visible) || info.Stamp != b.Stamp) {
			l.fatalf("recovery of block %d finds %+v", k.id, info)
		}
		return err
	})
	if l.dead {
		return
	}
	k.state, k.recovery, k.w = Recovering, recovery, nil
	if old != nil {
		if err := old.Write([]byte{1}, old.Length()); !errors.Is(err, ErrFenced) {
			l.fatalf("a writer goes on after recovery has begun: %v", err)
		}
	}
	if _, err := l.s.Recover(b, recovery-1, 0, 1<<30); !errors.Is(err, ErrFenced) && !l.dead {
		l.fatalf("an older generation is let in after recovery has begun: %v", err)
	}
}

// store does something to the store as a whole.
func (l *life) store() {
	switch l.rand.IntN(3) {
	case 0:
		err := l.s.Snapshot()
		l.note("snapshot: %v", err)
		if err != nil && !l.dead {
			l.fatalf("snapshot: %v", err)
		}
		if err != nil {
			return
		}
		for _, k := range l.blocks {
			if k.state == Final && slices.ContainsFunc(l.s.volumes, func(v *volume) bool {
				return v.files[k.file] != nil && l.s.blocks[k.id].file == v.files[k.file] && v.index.knows(k.file)
			}) {
				k.versions = []version{*k.now()}
			}
		}
	case 1:
		if err := l.s.Scrub(context.Background(), 1<<40); err != nil && !l.dead {
			l.fatalf("scrub: %v", err)
		}
	case 2:
		for _, k := range l.blocks {
			for _, w := range []*Writer{k.w, k.copying} {
				if w != nil {
					w.Close()
				}
			}
			k.w, k.copying = nil, nil
		}
		err := l.s.Close()
		l.note("close: %v", err)
		if l.dead {
			return
		}
		if err != nil {
			l.fatalf("close: %v", err)
		}
		l.reopened()
	}
}

// restart brings the store back after a crash.
func (l *life) restart() {
	for l.dead {
		power := l.rand.IntN(2) == 0
		l.note("-- restart, power lost: %v", power)
		l.mem.Restart(power)
		l.power = l.power || power
		if power {
			l.boot++
		}
		l.dead = false
		if l.rand.IntN(4) == 0 {
			l.spoilIndex()
		}
		l.arm(3)
		l.reopened()
	}
}

// spoilIndex loses or damages the index.
func (l *life) spoilIndex() {
	name := l.dirs[0] + "/" + indexName
	if l.rand.IntN(2) == 0 {
		l.mem.Remove(name)
		l.mem.SyncDir(l.dirs[0])
		return
	}
	l.mem.Flip(name, l.rand.Int64N(2*headerLen), uint(l.rand.IntN(8)))
}

// reopened opens the store and compares all blocks with what may be there.
func (l *life) reopened() {
	power := l.power
	if power {
		// Nothing is at risk any more but what is found.
		defer func() {
			if !l.dead {
				l.power = false
				for _, k := range l.blocks {
					k.versions = []version{*k.now()}
				}
			}
		}()
	} else {
		for _, k := range l.blocks {
			if k.w != nil || k.state == Writing {
				v := *k.now() // what was not flushed is gone, or not
				k.versions = append(k.versions, v)
			}
		}
	}
	for _, k := range l.blocks {
		k.w, k.copying = nil, nil
	}
	l.open()
	for _, k := range l.blocks {
		if l.dead {
			return
		}
		l.check(k, power)
		if l.dead {
			return
		}
		l.settle(k, power)
	}
}

// check reads a block and compares it with what it may be.
func (l *life) check(k *known, power bool) {
	content, info, err := l.read(k)
	if l.dead {
		return
	}
	allowed := []version{*k.now()}
	if power {
		allowed = slices.Clone(k.versions)
	}
	if k.maybe != nil {
		allowed = append(allowed, *k.maybe)
	}
	least := 1 << 30
	for _, v := range allowed {
		least = min(least, v.visible)
	}
	var stamps []uint64 // after a power failure the bytes may be newer than the generation
	for _, v := range allowed {
		stamps = append(stamps, v.stamp)
		if errors.Is(err, ErrNotFound) {
			if !v.exists {
				return
			}
			continue
		}
		if err == nil && v.exists && slices.Contains(stamps, info.Stamp) && len(content) >= least && len(content) <= len(v.content) &&
			bytes.Equal(content, v.content[:len(content)]) {
			return
		}
	}
	l.fatalf("block %d: %d bytes, %+v, %v; may be %v", k.id, len(content), info, err, describe(allowed))
}

func describe(vs []version) (s string) {
	for _, v := range vs {
		s += fmt.Sprintf("\n  exists %v stamp %d visible %d of %d", v.exists, v.stamp, v.visible, len(v.content))
	}
	return s
}

// read reads all that is visible of a block. One that lost its end with the power shows
// what is left when it is asked again.
func (l *life) read(k *known) (content []byte, info Info, err error) {
	for range 2 {
		if info, err = l.s.Stat(k.id); err != nil {
			return nil, info, err
		}
		content, err = readAll(l.s, Block{k.id, info.Stamp}, 0, info.Length)
		if !errors.Is(err, ErrDamaged) {
			break
		}
	}
	return content, info, err
}

func readAll(s *Store, b Block, off, n int64) (content []byte, err error) {
	r, err := s.Open(b, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		p, err := r.Next(context.Background())
		if err == io.EOF {
			return content, nil
		}
		if err != nil {
			return nil, err
		}
		content = append(content, p.Data...)
	}
}

// settle takes over what was found.
// tally compares what the disks count with the replicas that there are.
func (l *life) tally() {
	l.t.Helper()
	type count struct{ replicas, used int64 }
	counted, are := map[string]count{}, map[string]count{}
	for _, v := range l.s.volumes {
		counted[v.dir], are[v.dir] = count{v.replicas, v.used}, count{}
	}
	for _, of := range []map[int64]*replica{l.s.blocks, l.s.copies} {
		for _, r := range of {
			c := are[r.file.v.dir]
			are[r.file.v.dir] = count{c.replicas + 1, c.used + r.visible.length}
		}
	}
	if !maps.Equal(counted, are) {
		l.fatalf("disks count %v, and there are %v", counted, are)
	}
}

func (l *life) settle(k *known, power bool) {
	content, info, err := l.read(k)
	if l.dead {
		return
	}
	k.maybe = nil
	if err != nil {
		k.state = 0
		k.versions = append(k.versions, version{})
		return
	}
	k.state = info.State
	v := version{true, info.Stamp, content, len(content)}
	if info.Whole {
		l.whole++
		if power {
			l.fatalf("block %d is whole after the power was lost", k.id)
		}
	}
	if info.State == Waiting {
		k.versions = nil // durable
	}
	k.versions = append(k.versions, v)
	if k.state != Waiting && k.state != Final {
		l.fatalf("block %d is %v after a restart", k.id, k.state)
	}
	l.note("block %d: %v stamp %d, %d bytes", k.id, k.state, info.Stamp, info.Length)
}

var points = []string{"create.opened", "create.header", "reopened", "rewind", "recovery.fenced", "finish.header", "delete.header",
	"delete.unlink", "salvage.erased", "spill.data", "spill.sums", "sync.header", "sync.durable", "keep.header", "final.header",
	"index.written", "index.durable"}

// arm chooses when the process dies next.
func (l *life) arm(oneIn int) {
	switch {
	case l.rand.IntN(oneIn) != 0:
	case l.rand.IntN(2) == 0:
		l.left = 1 + l.rand.IntN(60)
	default:
		l.point = points[l.rand.IntN(len(points))]
	}
}

func (l *life) run(steps int) {
	l.open()
	for range steps {
		if l.left == 0 && l.point == "" {
			l.arm(4)
		}
		if !l.dead && l.rand.IntN(40) == 0 {
			l.kill("between operations")
		}
		if !l.dead {
			l.step()
		}
		l.restart()
		if !l.dead {
			l.tally()
		}
	}
	for _, k := range l.blocks {
		l.check(k, false)
		if l.dead {
			return
		}
	}
}

func newLife(t testing.TB, seed uint64, passed map[string]int) *life {
	r := rand.New(rand.NewPCG(seed, 1))
	return &life{t: t, seed: seed, rand: r, mem: vfs.NewMem(64<<20, seed), passed: passed, boot: 1,
		dirs: []string{"/a", "/b"}[:1+r.IntN(2)], syncing: r.IntN(3) == 0}
}

// TestLives simulates many lives of a store, each with operations at random, deaths of the
// process and of the machine at every point and between any two operations of the file
// system, and an index that is lost or damaged. What was flushed survives the process,
// what was synced the machine, and no byte is ever another than was written.
func TestLives(t *testing.T) {
	passed := map[string]int{}
	n, whole := *seeds, 0
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		l := newLife(t, uint64(seed), passed)
		l.run(60)
		whole += l.whole
	}
	if whole == 0 {
		t.Error("nothing was found whole")
	}
	for _, p := range points {
		if passed[p] == 0 {
			t.Errorf("no process died at %s", p)
		}
	}
	t.Logf("deaths at points: %v", passed)
}

// TestLivesAreTheSameAgain: a seed that has failed once fails again.
func TestLivesAreTheSameAgain(t *testing.T) {
	for seed := range uint64(30) {
		a, b := newLife(t, seed, map[string]int{}), newLife(t, seed, map[string]int{})
		a.run(60)
		b.run(60)
		if !slices.Equal(a.log, b.log) {
			t.Errorf("seed %d: two lives", seed)
		}
	}
}

// TestPowerFailsDuringSync fails it in the middle of the second Sync of a block, which goes
// on in the chunk that the first one ended in.
func TestPowerFailsDuringSync(t *testing.T) {
	lengths := map[int64]int{}
	for seed := range uint64(1500) {
		mem := vfs.NewMem(1<<24, seed)
		config := Config{Dirs: []string{"/a"}, FS: mem, piece: 2 * page}
		armed := false
		config.point = func(p string) {
			if armed && p == "sync.header" {
				mem.Kill()
			}
		}
		s, err := Open(config)
		if err != nil {
			t.Fatal(err)
		}
		content := pattern(6000)
		w := mustCreate(t, s, Block{1, 1}, 1, 8000)
		if err := errors.Join(w.Write(content[:4200], 0), w.Sync(), w.Write(content[4200:], 4200)); err != nil {
			t.Fatal(err)
		}
		armed = true
		if err := w.Sync(); !errors.Is(err, vfs.ErrDead) {
			t.Fatal(err)
		}
		mem.Restart(true)
		if s, err = Open(config); err != nil {
			t.Fatal(err)
		}
		info, err := s.Stat(1)
		if err != nil || info.Length < 4200 {
			t.Fatalf("seed %d: of 4200 durable bytes there are %d, %v", seed, info.Length, err)
		}
		if got, err := readAll(s, Block{1, 1}, 0, info.Length); err != nil || !bytes.Equal(got, content[:info.Length]) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		lengths[info.Length]++
	}
	if len(lengths) < 3 {
		t.Errorf("it always came to the same: %v", lengths)
	}
}
