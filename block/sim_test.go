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
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/vfs"
)

var (
	seeds = flag.Int("seeds", 1000, "how many lives of a store are simulated")
	seed  = flag.Uint64("seed", 0, "the first of them")
)

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
	dir      string    // the disk on which it was last
	unsure   []version // what operations that have failed may have left for the next start
	stale    bool      // a disk that has failed has another replica, which the next start may find
	ghosts   []version // what that has, which comes back where the block was deleted meanwhile
	moved    []version // what replicas had on other disks from where it was copied: their end may be lost with the power
	away     bool      // its disk could not be used at the last start
	powered  bool      // the power was lost since it was seen
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

	starting bool // the store was opened, and not all was looked at yet

	faults bool                     // disks fail
	fault  *fault                   // the next one
	fired  atomic.Int64             // faults so far; what they have done is seen once this is: who hangs does not come back
	ended  map[string]bool          // disks that have failed since the store was opened
	failed map[string]uint64        // how often each has
	lost   map[string]bool          // pages of it that count as clean are not on it: the machine ends before the store is opened again, which could not know
	hung   chan struct{}            // closed at the end
	wrong  *fault                   // a fault of the store that is to be found: of such operations it does not see the errors
	better func(a, b *replica) bool // another one
	seen   map[string]int           // faults that have happened, by kind, of all lives

	away     string            // the disk that is not mounted
	hangs    bool              // one does, and nobody can unmount it
	mounted  map[string]uint64 // how often each was mounted again
	attached int
}

// fault is one of a disk: the operation of a kind that comes when left others of it have been.
type fault struct {
	dir, kind string
	err       error // nil: it hangs
	left      int
}

// kinds are those of faults.
var kinds = []fault{{kind: "write", err: unix.EIO}, {kind: "sync", err: unix.EIO}, {kind: "syncdir", err: unix.EIO}, {kind: "write", err: unix.ENOSPC},
	{kind: "allocate", err: unix.ENOSPC}, {kind: "write"}, {kind: "sync"}, {kind: "read"}}

func (f *fault) String() string {
	if f.err == nil {
		return f.kind + " hangs"
	}
	return f.kind + ": " + f.err.Error()
}

// happens is asked before each operation of the file system.
func (l *life) happens(op vfs.Op) error {
	l.fired.Load() // nothing else orders what an operation noted that hangs, and was waited for in vain
	if l.left > 0 {
		if l.left--; l.left == 0 {
			l.kill("before " + op.Kind + " " + op.Name)
		}
	}
	if l.dead {
		return nil
	}
	if l.away != "" && strings.HasPrefix(op.Name, l.away+"/") && op.Kind != "read" && op.Kind != "write" && op.Kind != "sync" { // of files that are open
		return os.ErrNotExist
	}
	if w := l.wrong; w != nil && op.Kind == w.kind {
		if w.left--; w.left <= 0 {
			w.left = 1 + l.rand.IntN(5)
			if op.Kind == "sync" {
				l.mem.FailSync(op.Name)
			}
			return errUnseen
		}
	}
	f := l.fault
	if f == nil || op.Kind != f.kind || !strings.HasPrefix(op.Name, f.dir+"/") || strings.HasSuffix(op.Name, "/VERSION") { // who looks whether a disk is there does not use it
		return nil
	}
	if f.err == unix.ENOSPC && op.Kind == "write" && !op.Grows(l.mem) {
		return nil
	}
	if f.left--; f.left > 0 {
		return nil
	}
	l.fault = nil
	l.seen[f.String()]++
	l.note("-- %s: %s", op.Name, f)
	if f.kind == "sync" && !l.starting && l.rand.IntN(2) == 0 {
		l.mem.FailSync(op.Name)
		l.lost[f.dir] = true
	}
	if f.err != unix.ENOSPC {
		l.ended[f.dir] = true
		l.failed[f.dir]++
	}
	l.hangs = l.hangs || f.err == nil
	l.fired.Add(1)
	if f.err == nil {
		<-l.hung
		return vfs.ErrDead
	}
	return f.err
}

// errUnseen is the error of an operation that the store takes for well done.
var errUnseen = errors.New("nobody looks at this error")

// blind is a file system whose user does not look at some errors.
type blind struct{ vfs.FS }

func (b blind) Open(name string, flags int) (vfs.File, error) {
	f, err := b.FS.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return blindFile{f}, nil
}

type blindFile struct{ vfs.File }

func (f blindFile) Sync() error {
	if err := f.File.Sync(); err != errUnseen {
		return err
	}
	return nil
}

func (f blindFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if err == errUnseen {
		return len(p), nil
	}
	return n, err
}

// gone reports whether a disk is out of use.
func (l *life) gone(dir string) bool {
	return slices.ContainsFunc(l.s.volumes, func(v *volume) bool { return v.dir == dir && v.err() != nil })
}

// someGone reports whether any disk is, allGone whether all are.
func (l *life) someGone() bool { return slices.ContainsFunc(l.dirs, l.gone) }
func (l *life) allGone() bool {
	return !slices.ContainsFunc(l.dirs, func(dir string) bool { return !l.gone(dir) })
}

// fails notes what may be after an operation that would have made a block another version has failed, in a process that goes on.
func (l *life) fails(k *known, v version, err error) {
	l.t.Helper()
	old := *k.now()
	k.maybe = nil
	mixed := old
	mixed.stamp = v.stamp // only the header has been written
	k.unsure = append(k.unsure, old, v, mixed)
	longest := func(content []byte) []byte { // what is not flushed may be there all the same after a crash
		for _, of := range [][]byte{v.content, old.content} {
			if bytes.HasPrefix(of, content) {
				return of
			}
		}
		return content
	}
	for _, w := range []*Writer{k.w, k.copying} {
		if w != nil {
			w.Close()
		}
	}
	k.w, k.copying = nil, nil
	content, info, rerr := l.read(k)
	if l.dead {
		k.versions = append(k.versions, v, old)
		return
	}
	switch {
	case errors.Is(err, ErrOut) && (rerr == nil || errors.Is(rerr, ErrOut) || errors.Is(rerr, ErrNotFound)) && !(rerr == nil && !old.exists),
		errors.Is(err, ErrFull) && (rerr == nil || errors.Is(rerr, ErrNotFound) || k.stale && errors.Is(rerr, ErrOut)):
	default:
		l.fatalf("block %d after %v: %+v, %v", k.id, err, info, rerr)
	}
	now := old
	switch {
	case errors.Is(rerr, ErrOut):
		now.content = longest(old.content)
	case rerr != nil:
		now, k.state = version{}, 0
	default:
		starting := l.starting
		l.starting = true
		l.check(k, false)
		l.starting = starting
		now = version{true, info.Stamp, longest(content), len(content)}
		k.state = info.State
	}
	k.maybe = nil
	k.versions = append(k.versions, v, now)
}

func (l *life) fatalf(format string, args ...any) {
	l.t.Helper()
	for _, line := range l.log {
		l.t.Log(line)
	}
	l.t.Fatalf("seed %d: "+format, append([]any{l.seed}, args...)...)
}

func (l *life) note(format string, args ...any) {
	l.fired.Load()
	l.log = append(l.log, fmt.Sprintf(format, args...))
}

// failures is how often a disk has failed.
func (l *life) failures(dir string) uint64 {
	l.fired.Load()
	return l.failed[dir]
}

func (l *life) open() {
	l.t.Helper()
	clear(l.ended)
	l.hangs = false
	config := Config{Dirs: l.dirs, FS: blind{&vfs.Faulty{FS: l.mem, Fail: l.happens}}, Patience: time.Minute, SyncOnClose: l.syncing, OneByOne: true, piece: 2 * page,
		Since:    func(dir string) uint64 { return l.boot<<32 + l.mounted[dir]<<16 + l.failures(dir) },
		better:   l.better,
		Failures: l.failures,
		point: func(p string) {
			if p == l.point {
				l.passed[p]++
				l.kill("at " + p)
			}
		}}
	for {
		fired := l.fired.Load()
		s, err := Open(config)
		switch {
		case err == nil:
			l.s = s
			return
		case l.dead:
			return
		case l.fired.Load() == fired:
			l.fatalf("open: %v", err)
		}
		l.note("open: %v", err)
		clear(l.ended)
	}
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
	fired, from := l.fired.Load(), l.dirOf(k)
	err := f()
	l.note("%s block %d stamp %d len %d/%d: %v", what, k.id, v.stamp, v.visible, len(v.content), err)
	if l.dead {
		return false
	}
	if err != nil && l.fired.Load() > fired {
		l.fails(k, v, err)
		return false
	}
	k.maybe = nil
	if err != nil {
		l.fatalf("%s of block %d: %v", what, k.id, err)
	}
	to := l.dirOf(k)
	if from != "" && to != "" && from != to {
		k.moved = append(k.moved, k.versions...)
	}
	if durable && !l.lost[to] {
		k.versions = nil
	}
	k.versions = append(k.versions, v)
	return true
}

// dirOf is the disk that has a block, as the store knows it.
func (l *life) dirOf(k *known) string {
	if r := l.s.blocks[k.id]; r != nil {
		return r.file.v.dir
	}
	return ""
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
	l.replace(k, "copy", v)
}

// replace makes a whole replica of a version in the place of the one that is there.
func (l *life) replace(k *known, what string, v version) bool {
	return l.try(k, what, v, true, func() error {
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
	fired := l.fired.Load()
	w, err := l.s.Create(Block{k.id, k.copied.stamp}, k.file, int64(k.capacity), true)
	if err == nil {
		k.copying, err = w, w.Write(k.copied.content, 0)
	}
	l.note("begin a copy of block %d stamp %d: %v", k.id, k.copied.stamp, err)
	if err != nil && !l.dead && l.fired.Load() > fired {
		l.fails(k, k.copied, err)
	} else if err != nil && !l.dead {
		l.fatalf("begin a copy of block %d: %v", k.id, err)
	}
}

// end has that replace the other one, if that is as it was.
func (l *life) end(k *known) {
	w, now := k.copying, k.now()
	k.copying = nil
	if k.state == Final && now.stamp < k.copied.stamp && bytes.Equal(now.content, k.copied.content) {
		l.try(k, "end a copy", k.copied, true, func() error {
			err := w.Finalize(int64(len(k.copied.content)))
			if err != nil {
				w.Close()
			}
			return err
		})
		return
	}
	fired := l.fired.Load()
	err := w.Close()
	l.note("give up a copy of block %d: %v", k.id, err)
	if err != nil && !l.dead && l.fired.Load() == fired {
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
	if k.copying != nil && k.copying.r.file.v.err() != nil {
		k.copying.Close()
		k.copying = nil
	}
	if _, err := l.s.Stat(k.id); k.away || errors.Is(err, ErrOut) {
		l.elsewhere(k)
		return
	}
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

// elsewhere makes a copy of a closed block whose disk has failed, as one that comes from another node, of the same generation or a new one.
func (l *life) elsewhere(k *known) {
	if now := k.now(); k.away || k.state != Final || len(k.unsure) > 0 || now.visible != len(now.content) || k.copying != nil {
		return
	}
	v := *k.now()
	if k.fenced || l.rand.IntN(2) == 0 {
		v.stamp = l.next()
	}
	same := v.stamp == k.now().stamp
	k.stale, k.ghosts = true, append(k.ghosts, k.versions...)
	if l.replace(k, "copy elsewhere", v) && same && l.rand.IntN(2) == 0 {
		l.goOn(k)
	}
}

// goOn appends to a closed block under the generation that it has, as some clients do.
func (l *life) goOn(k *known) {
	v := *k.now()
	if !l.try(k, "go on with", v, false, func() (err error) {
		k.w, err = l.s.Append(Block{k.id, v.stamp}, v.stamp, int64(len(v.content)))
		return err
	}) {
		return
	}
	k.state = Writing
	p := l.bytes(min(l.rand.IntN(page), k.capacity-len(v.content)))
	from := int64(len(v.content))
	v.content = slices.Concat(v.content, p)
	v.visible = len(v.content)
	l.try(k, "write and sync", v, true, func() error { return errors.Join(k.w.Write(p, from), k.w.Sync()) })
}

func (l *life) startRecovery(k *known, b Block, now version) {
	recovery := l.next()
	old := k.w
	k.fenced = true
	began := l.try(k, "start recovery", now, false, func() error {
		info, err := l.s.StartRecovery(b, recovery)
		if err == nil && (info.Length != int64(now.visible) || info.Stamp != b.Stamp) {
			l.fatalf("recovery of block %d finds %+v", k.id, info)
		}
		return err
	})
	if !began {
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
	fired := l.fired.Load()
	switch l.rand.IntN(3) {
	case 0:
		err := l.s.Snapshot()
		l.note("snapshot: %v", err)
		if err != nil && !l.dead && l.fired.Load() == fired {
			l.fatalf("snapshot: %v", err)
		}
		if err != nil {
			return
		}
		for _, k := range l.blocks {
			if k.state == Final && !k.away && slices.ContainsFunc(l.s.volumes, func(v *volume) bool {
				return v.err() == nil && !l.lost[v.dir] && v.files[k.file] != nil && l.s.blocks[k.id].file == v.files[k.file] && v.index.knows(k.file)
			}) {
				k.versions = []version{*k.now()}
			}
		}
	case 1:
		if err := l.s.Scrub(context.Background(), 1<<40); err != nil && !l.dead && l.fired.Load() == fired && !l.someGone() {
			l.fatalf("scrub: %v", err)
		}
	case 2:
		if len(l.lost) > 0 {
			return
		}
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
		if err != nil && l.fired.Load() == fired && !l.someGone() {
			l.fatalf("close: %v", err)
		}
		if len(l.lost) > 0 { // just now
			l.kill("after an fsync that has failed")
			return
		}
		l.present()
		l.reopened()
	}
}

// present has all disks be mounted, of a store that is not open.
func (l *life) present() {
	if l.away != "" {
		l.mounted[l.away]++
		l.away = ""
	}
}

// unmount has a disk go away, with all that the kernel has of it. Of two one is there.
func (l *life) unmount(dir string) {
	l.note("-- %s is not mounted", dir)
	l.away = dir
	l.attach()
	for _, k := range l.blocks {
		if r := l.s.blocks[k.id]; r != nil && r.file.v.err() != nil && k.w != nil {
			k.w.Close()
			k.w = nil
		}
	}
}

// mount has it be there again, with all that it had.
func (l *life) mount() {
	dir := l.away
	l.note("-- %s is mounted again", dir)
	l.present()
	delete(l.ended, dir)
	l.starting = true
	defer func() { l.fired.Load(); l.starting = false }()
	if l.attach(); !l.dead && !l.gone(dir) {
		l.attached++
	}
	for _, k := range l.blocks {
		if l.dead {
			return
		}
		now, waited := l.dirOf(k), k.away // it may wait for this disk too, on which it never was as far as is known
		if k.w != nil || k.copying != nil || l.missing(k) || now == "" && k.dir != dir && !waited {
			continue
		}
		powered := k.powered // while it was out
		if l.check(k, powered); !l.dead && !k.away && (now == dir || now == "") {
			if l.settle(k, powered); powered && !k.away {
				k.versions = []version{*k.now()}
			}
		}
	}
}

// attach has the store look which disks are there, until it has let go of those that are not.
func (l *life) attach() {
	for range 2 {
		Attach(l.s)
		synctest.Wait()
	}
}

// restart brings the store back after a crash.
func (l *life) restart() {
	for l.dead {
		power := l.rand.IntN(2) == 0 || len(l.lost) > 0
		l.note("-- restart, power lost: %v", power)
		l.mem.Restart(power)
		l.power = l.power || power
		if power {
			l.boot++
			clear(l.lost)
		}
		l.dead = false
		l.present()
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
	l.starting = true
	defer func() { l.fired.Load(); l.starting = false }()
	power := l.power
	for _, k := range l.blocks {
		k.powered = k.powered || power
	}
	if power {
		// Nothing is at risk any more but what is found.
		defer func() {
			if !l.dead {
				l.power = false
				for _, k := range l.blocks {
					if !k.away && !l.lost[k.dir] {
						k.versions = []version{*k.now()}
					}
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
		if l.missing(k) {
			continue
		}
		l.check(k, k.powered)
		if l.dead {
			return
		}
		if !k.away {
			l.settle(k, k.powered)
		}
	}
}

// missing reports whether a block is on a disk that could not be used at the start, which is then said.
func (l *life) missing(k *known) bool {
	k.away = false
	uncertain := k.maybe != nil || len(k.unsure) > 0 || k.dir == ""
	if !l.gone(k.dir) && !(uncertain && l.someGone()) {
		return false
	}
	_, err := l.s.Stat(k.id)
	old := k.stale && l.gone(k.dir) // there may be one from before
	if !old && !errors.Is(err, ErrOut) && !errors.Is(err, ErrNotFound) {
		return false
	}
	if unseen := slices.ContainsFunc(l.s.volumes, func(v *volume) bool { return v.unseen != nil }); errors.Is(err, ErrNotFound) && !uncertain && !unseen && !slices.ContainsFunc(k.versions, func(v version) bool { return !v.exists }) {
		l.fatalf("it is not said that %s may have block %d: %v", k.dir, k.id, err)
	}
	l.waits(k)
	return true
}

// waits has a block wait for a start at which its disk can be used.
func (l *life) waits(k *known) {
	k.away = true
	if k.maybe != nil {
		k.unsure = append(k.unsure, *k.now(), *k.maybe)
		k.versions = append(k.versions, *k.maybe, *k.now())
		k.maybe = nil
	}
}

// check reads a block and compares it with what it may be.
func (l *life) check(k *known, power bool) {
	fired := l.fired.Load()
	content, info, err := l.read(k)
	if l.dead {
		return
	}
	if err != nil && l.fired.Load() > fired {
		if l.starting {
			l.waits(k)
		}
		return
	}
	allowed := []version{*k.now()}
	if power {
		allowed = slices.Clone(k.versions)
	}
	if k.maybe != nil {
		allowed = append(allowed, *k.maybe)
	}
	if l.starting {
		allowed = append(allowed, k.unsure...)
	}
	if l.starting && slices.ContainsFunc(allowed, func(v version) bool { return !v.exists }) {
		allowed = append(allowed, k.ghosts...)
		if power {
			allowed = append(allowed, k.moved...)
		}
	}
	least := 1 << 30
	for _, v := range allowed {
		least = min(least, v.visible)
	}
	var stamps []uint64 // after a power failure the bytes may be newer than the generation
	for _, v := range allowed {
		stamps = append(stamps, v.stamp)
		if errors.Is(err, ErrNotFound) || k.stale && errors.Is(err, ErrOut) { // a disk that is out has what was deleted
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
		if v.err() != nil {
			continue
		}
		counted[v.dir], are[v.dir] = count{v.replicas, v.used}, count{}
	}
	for _, of := range []map[int64]*replica{l.s.blocks, l.s.copies} {
		for _, r := range of {
			if r.file.v.err() != nil {
				continue
			}
			c := are[r.file.v.dir]
			are[r.file.v.dir] = count{c.replicas + 1, c.used + r.visible.length}
		}
	}
	if !maps.Equal(counted, are) {
		l.fatalf("disks count %v, and there are %v", counted, are)
	}
}

// look notes where blocks are. What has failed is not used.
func (l *life) look() {
	l.fired.Load()
	for dir := range l.ended {
		if !l.gone(dir) {
			l.fatalf("%s has failed and is in use", dir)
		}
	}
	for _, k := range l.blocks {
		if dir := l.dirOf(k); dir != "" && !k.away {
			k.dir = dir
		}
	}
}

func (l *life) settle(k *known, power bool) {
	fired := l.fired.Load()
	content, info, err := l.read(k)
	if l.dead {
		return
	}
	if err != nil && l.fired.Load() > fired {
		l.waits(k)
		return
	}
	if k.maybe != nil {
		k.unsure = append(k.unsure, *k.maybe)
	}
	if !l.someGone() { // else another start may find it
		k.unsure = nil
	} else if power && err == nil { // and what was newer, whose deletion was lost on the disk that is out
		for _, v := range k.versions {
			if v.exists && v.stamp > info.Stamp {
				k.unsure = append(k.unsure, v)
			}
		}
	}
	k.maybe, k.powered = nil, false
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
	has := func(vs []version) bool {
		return slices.ContainsFunc(vs, func(v version) bool { return v.stamp == info.Stamp })
	}
	if has(k.ghosts) && !has(k.versions) { // it has come back, and is no more durable than it was
		k.versions = append(k.versions, k.ghosts...)
	}
	if info.State == Waiting && !l.lost[info.Dir] {
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

// fail chooses which disk fails next.
func (l *life) fail() {
	f := kinds[l.rand.IntN(len(kinds))]
	f.dir, f.left = l.dirs[l.rand.IntN(len(l.dirs))], 1+l.rand.IntN(15)
	l.fault = &f
}

func (l *life) run(steps int) {
	defer close(l.hung)
	l.open()
	for range steps {
		if l.faults && l.fault == nil && l.rand.IntN(10) == 0 {
			l.fail()
		}
		if l.left == 0 && l.point == "" {
			l.arm(4)
		}
		if !l.dead && len(l.dirs) > 1 && l.rand.IntN(30) == 0 {
			if dir := l.dirs[l.rand.IntN(2)]; l.away != "" {
				l.mount()
			} else if !l.lost[dir] && !l.hangs && (l.gone(dir) || !l.someGone()) {
				l.unmount(dir)
			}
			l.restart()
		}
		if !l.dead && (l.rand.IntN(40) == 0 || l.allGone() || l.someGone() && l.rand.IntN(10) == 0) {
			l.kill("between operations")
		}
		if !l.dead {
			l.step()
		}
		l.restart()
		if !l.dead {
			l.tally()
			l.look()
		}
	}
	for _, k := range l.blocks {
		if k.away || l.gone(k.dir) {
			continue
		}
		l.check(k, false)
		if l.dead {
			return
		}
	}
}

func newLife(t testing.TB, seed uint64, passed map[string]int) *life {
	r := rand.New(rand.NewPCG(seed, 1))
	return &life{t: t, seed: seed, rand: r, mem: vfs.NewMem(64<<20, seed), passed: passed, boot: 1,
		dirs: []string{"/a", "/b"}[:1+r.IntN(2)], syncing: r.IntN(3) == 0, faults: r.IntN(2) == 0,
		ended: map[string]bool{}, failed: map[string]uint64{}, lost: map[string]bool{}, mounted: map[string]uint64{}, hung: make(chan struct{}), seen: map[string]int{}}
}

// TestLives simulates many lives of a store, each with operations at random, deaths of the
// process and of the machine at every point and between any two operations of the file
// system, disks that fail, are full or hang, also at the start, and an index that is lost or damaged. What was flushed survives the process,
// what was synced the machine, and no byte is ever another than was written.
//
// One promise is looser. Of a block that may be gone, because it was deleted, or a copy of it was on another disk, a replica may come back that was synced and
// closed on a disk which was away: it may have lost any part of its end by then, also of what was synced. Nobody was promised that it comes back, so only its bytes are
// compared (check: of what need not exist the least length is 0).
func TestLives(t *testing.T) {
	passed, failed := map[string]int{}, map[string]int{}
	n, whole, attached := *seeds, 0, 0
	if testing.Short() {
		n /= 3 // fewer do not come through all points
	}
	for i := range uint64(n) {
		synctest.Test(t, func(t *testing.T) { // a disk that hangs is waited for
			l := newLife(t, *seed+i, passed)
			l.seen = failed
			l.run(60)
			whole += l.whole
			attached += l.attached
		})
	}
	for _, f := range kinds {
		if failed[f.String()] == 0 {
			t.Errorf("no disk has failed: %s", &f)
		}
	}
	if whole == 0 || attached == 0 {
		t.Errorf("%d blocks were found whole, %d disks came back", whole, attached)
	}
	for _, p := range points {
		if passed[p] == 0 {
			t.Errorf("no process died at %s", p)
		}
	}
	t.Logf("deaths at points: %v; disks that failed: %v", passed, failed)
}

// TestLivesAreTheSameAgain: a seed that has failed once fails again.
func TestLivesAreTheSameAgain(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			a, b := newLife(t, seed, map[string]int{}), newLife(t, seed, map[string]int{})
			a.run(60)
			b.run(60)
			if !slices.Equal(a.log, b.log) {
				t.Errorf("seed %d: two lives", seed)
			}
		})
	}
}

// found is a test that has failed.
type found struct{ testing.TB }

func (f found) Helper()               {}
func (f found) Log(...any)            {}
func (f found) Fatalf(string, ...any) { panic(f) }

// TestFaultsAreFound: mistakes of a store are found by the lives that are run each time.
func TestFaultsAreFound(t *testing.T) {
	unseen := func(kind string) func(*life) {
		return func(l *life) { l.faults, l.wrong = false, &fault{kind: kind, left: 1 + l.rand.IntN(20)} }
	}
	for what, put := range map[string]func(*life){
		"errors of sync that are not looked at":  unseen("sync"),
		"errors of write that are not looked at": unseen("write"),
		"the longer one of a generation is not the newer one": func(l *life) {
			l.better = func(a, b *replica) bool {
				defer func(length int64) { a.visible.length = length }(a.visible.length)
				a.visible.length = b.visible.length
				return better(a, b)
			}
		},
	} {
		lives, is := 0, false
		for ; lives < 1000 && !is; lives++ {
			synctest.Test(t, func(t *testing.T) {
				l := newLife(found{t}, uint64(lives), map[string]int{})
				put(l)
				defer func() {
					if p := recover(); p != nil {
						is = true
						if _, ok := p.(found); !ok {
							panic(p)
						}
					}
				}()
				l.run(60)
			})
		}
		if !is {
			t.Errorf("%s: not found in %d lives", what, lives)
		}
		t.Logf("%s: found in life %d", what, lives)
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
