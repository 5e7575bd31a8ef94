package tasklog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const gb = 1 << 30

// TestRemovedLogsThatAreOpen: they hold nothing, and go when nobody writes to them.
func TestRemovedLogsThatAreOpen(t *testing.T) {
	k := Keeper{Open: t.TempDir()}
	path := filepath.Join(k.Open, "1")
	writer, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for range 2 {
		if _, err := writer.WriteString("more"); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Keep(k.Open, nil); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Size() != 0 {
			t.Errorf("it is %v, %v", st, err)
		}
	}
	writer.Close()
	if _, err := k.Keep(k.Open, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestRoomBehindTheEnd: what is allocated behind the end of a log is given back, also of one whose size is
// all hole, and what is in the log stays.
func TestRoomBehindTheEnd(t *testing.T) {
	for _, size := range []int64{5, 100 << 20} {
		dir := t.TempDir()
		task := Task{ID: "t", UID: uint32(os.Getuid()), User: "me", Stdout: filepath.Join(dir, "out"), Limit: 1 << 20}
		f, err := os.Create(task.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("hello"); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, size, 32<<20); err != nil {
			t.Skip("the file system does not allocate behind the end:", err)
		}
		if use(task.Stdout) < 32<<20 {
			t.Skip("the file system does not tell what is allocated behind the end")
		}
		k := Keeper{Reserve: 1}
		if cuts, err := k.Keep(dir, []Task{task}); len(cuts) != 1 || err != nil {
			t.Errorf("cut: %v, %v", cuts, err)
		}
		if holds := use(task.Stdout); holds > task.Limit {
			t.Errorf("it holds %d bytes", holds)
		}
		if st, err := f.Stat(); err != nil || st.Size() != size || string(read(t, task.Stdout)[:5]) != "hello" {
			t.Errorf("it is %v, %v", st, err)
		}
		if cuts, err := k.Keep(dir, []Task{task}); len(cuts) != 0 || err != nil {
			t.Errorf("cut again: %v, %v", cuts, err)
		}
	}
}

func TestPlan(t *testing.T) {
	cases := []struct {
		name    string
		logs    []log
		limit   int64
		missing int64
		want    []int64
	}{
		{"within", []log{{1, gb, false}, {2, gb, true}}, gb, 0, []int64{gb, gb}},
		{"one is too large", []log{{1, 3 * gb, false}, {2, gb, false}}, 2 * gb, 0, []int64{2*gb - 2*gb/10, gb}},
		{"what ended first goes first", []log{{1, gb, true}, {1, gb, true}, {1, gb, false}}, 2*gb + gb/2, 0, []int64{scrap, gb, gb}},
		{"then what is written, to the same size", []log{{1, gb, true}, {1, 3 * gb, false}, {1, 2 * gb, false}}, 2 * gb, 0,
			[]int64{scrap, (2*gb - 2*gb/10 - scrap) / 2, (2*gb - 2*gb/10 - scrap) / 2}},
		{"a small one stays whole", []log{{1, 3 * gb, false}, {1, 1000, false}}, gb, 0, []int64{gb - gb/10 - 1000, 1000}},
		{"a full disk: who has most gives", []log{{1, 9 * gb, true}, {2, gb, false}}, 10 * gb, gb, []int64{scrap, gb}},
		{"a full disk: both", []log{{1, 4 * gb, false}, {2, 4 * gb, false}}, 10 * gb, 4 * gb, []int64{2*gb - 2*gb/10, 2*gb - 2*gb/10}},
		{"a full disk that others have filled", []log{{1, 4 * gb, false}, {2, Floor / 2, false}}, 10 * gb, 100 * gb, []int64{Floor - Floor/10, Floor / 2}},
	}
	for _, c := range cases {
		got := plan(c.logs, func(uint32) int64 { return c.limit }, c.missing)
		for i := range got { // rounding
			if diff := got[i] - c.want[i]; diff < -2 || diff > 2 {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// TestPlanHolds: whatever is there, nobody keeps more than is allowed but for
// scraps, nobody within limits loses anything, and nothing grows.
func TestPlanHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		logs := make([]log, 1+random.IntN(8))
		users := map[uint32]int64{}
		for i := range logs {
			logs[i] = log{uid: uint32(random.IntN(3)), bytes: random.Int64N(4 * gb), ended: random.IntN(2) == 0}
			users[logs[i].uid] += logs[i].bytes
		}
		limit := 1 + random.Int64N(8*gb)
		keep := plan(logs, func(uint32) int64 { return limit }, 0)
		kept := map[uint32]int64{}
		for i, n := range keep {
			kept[logs[i].uid] += n
			if n > logs[i].bytes || n < 0 {
				t.Fatalf("log %d of %v becomes %d", i, logs, n)
			}
			if users[logs[i].uid] <= limit && n != logs[i].bytes {
				t.Fatalf("a user within limits loses %d of %v", i, logs)
			}
		}
		for uid, n := range kept {
			if n > limit+scrap*int64(len(logs)) {
				t.Fatalf("user %d keeps %d of %d: %v", uid, n, limit, logs)
			}
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close()) // blocks are counted when they are on the disk
	}
	if err != nil {
		t.Fatal(err)
	}
}

// read returns what a reader of the log gets that leaves out holes.
func read(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all bytes.Buffer
	for at := int64(0); ; {
		from, to, err := data(f, at)
		if err != nil {
			t.Fatal(err)
		}
		chunk := make([]byte, min(to-from, 100_000))
		n, err := f.ReadAt(chunk, from)
		all.Write(chunk[:n])
		at = from + int64(n)
		if errors.Is(err, io.EOF) {
			return all.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeep: a log that grows beyond what its user may have keeps its beginning and
// its end, says so in a line, and goes on growing; its size and offsets stay.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	task := Task{ID: "t1", UID: uint32(os.Geteuid()), User: "alice", Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err"), Limit: 2 << 20}
	k := &Keeper{Reserve: 1}
	keep := func() []Cut {
		t.Helper()
		cuts, err := k.Keep(dir, []Task{task})
		if errors.Is(err, ErrNoHoles) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return cuts
	}
	write(t, task.Stdout, []byte("the first line\n"))
	write(t, task.Stderr, []byte("a complaint\n"))
	if cuts := keep(); len(cuts) != 0 {
		t.Fatalf("small logs were cut: %v", cuts)
	}
	for round := range 3 {
		write(t, task.Stdout, bytes.Repeat([]byte("xxxxxxxxxxxxxxx\n"), 1<<18)) // 4 MB
		write(t, task.Stdout, []byte("the last line\n"))
		if cuts := keep(); len(cuts) != 1 || cuts[0].Task != "t1" {
			t.Fatalf("round %d: %v", round, cuts)
		}
		if n := use(task.Stdout) + use(task.Stderr); n > task.Limit {
			t.Errorf("round %d: the logs hold %d bytes of %d", round, n, task.Limit)
		}
		got := read(t, task.Stdout)
		if !bytes.HasPrefix(got, []byte("the first line\n")) || !bytes.HasSuffix(got, []byte("the last line\n")) {
			t.Errorf("round %d: beginning or end are lost: %.40q ... %.40q", round, got, got[max(0, len(got)-40):])
		}
		if n := strings.Count(string(got), "limit log-bytes"); n != 1 {
			t.Errorf("round %d: %d lines say so", round, n)
		}
		if bytes.IndexByte(got, 0) >= 0 {
			t.Errorf("round %d: a reader gets zeros", round)
		}
		info, _ := os.Stat(task.Stdout)
		if want := int64(15 + (round+1)*(4<<20+14)); info.Size() != want {
			t.Errorf("round %d: size %d, want %d", round, info.Size(), want)
		}
	}
	if got := read(t, task.Stderr); string(got) != "a complaint\n" {
		t.Errorf("the other log: %q", got)
	}
	if cuts := keep(); len(cuts) != 0 {
		t.Errorf("cut again: %v", cuts)
	}
}

// TestKeepLeavesOthersFiles: what is not the task's own log is not touched, even
// where its name leads to it.
func TestKeepLeavesOthersFiles(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	write(t, secret, bytes.Repeat([]byte("s"), 8<<20))
	link := filepath.Join(dir, "out")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	k := &Keeper{Reserve: 1}
	if _, err := k.Keep(dir, []Task{{ID: "t1", UID: uint32(os.Geteuid()), Stdout: link, Stderr: dir, Limit: 1}}); err != nil {
		t.Error(err)
	}
	cutAs := func(path string, uid int) error {
		return k.leases.with(path, func(f *os.File) error { return cut(f, uint32(uid), 1, "x") })
	}
	if cutAs(link, os.Geteuid()) == nil {
		t.Error("a link was followed")
	}
	if cutAs(secret, os.Geteuid()+1) == nil {
		t.Error("somebody else's file was cut")
	}
	if got := read(t, secret); !reflect.DeepEqual(got, bytes.Repeat([]byte("s"), 8<<20)) {
		t.Error("it has changed")
	}
}

// holding has a task's files of some bytes, and a keeper of them.
func holding(t *testing.T, size int, change func(*Task)) (task Task, keep func()) {
	t.Helper()
	dir := t.TempDir()
	task = Task{ID: "t1", UID: uint32(os.Geteuid()), User: "alice", Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err"),
		Progress: filepath.Join(dir, "progress"), Limit: 2 << 20}
	for _, path := range []string{task.Stdout, task.Stderr, task.Progress} {
		write(t, path, bytes.Repeat([]byte("x"), size))
	}
	change(&task)
	k := &Keeper{Reserve: 1}
	return task, func() {
		t.Helper()
		if _, err := k.Keep(dir, []Task{task}); errors.Is(err, ErrNoHoles) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndedLogsThatGrow: the logs and the progress file of a task that has ended are
// still its owner's to write to.
func TestEndedLogsThatGrow(t *testing.T) {
	for _, ended := range []bool{false, true} {
		task, keep := holding(t, 1, func(task *Task) { task.Ended = ended })
		for range 3 {
			keep()
		}
		for _, path := range []string{task.Stdout, task.Progress} {
			write(t, path, bytes.Repeat([]byte("x"), 8<<20))
		}
		for range 3 {
			keep()
		}
		if n := use(task.Stdout) + use(task.Stderr); n > task.Limit {
			t.Errorf("ended %v: the logs hold %d bytes of %d", ended, n, task.Limit)
		}
		if n := use(task.Progress); n > maxProgress {
			t.Errorf("ended %v: the progress file holds %d bytes", ended, n)
		}
	}
}

// TestManyEndedAreLookedAt: those of many ended tasks come to their turn.
func TestManyEndedAreLookedAt(t *testing.T) {
	k := &Keeper{}
	tasks := make([]Task, 2*endedAtOnce+1)
	for i := range tasks {
		tasks[i] = Task{ID: fmt.Sprint(i), Stdout: "/nowhere", Stderr: "/nowhere", Ended: true}
	}
	k.look(tasks, false)
	for range 3 {
		k.look(tasks, false)
	}
	for id, s := range k.ended {
		if k.round-s.round > 2 {
			t.Fatalf("task %s was looked at in round %d of %d", id, s.round, k.round)
		}
	}
	k.look(tasks, true)
	for id, s := range k.ended {
		if s.round != k.round {
			t.Fatalf("task %s was not looked at with all", id)
		}
	}
}

// TestLeasesAreOvercome: a log on which its owner takes a lease, and the next whenever
// somebody wants to open it, is cut all the same.
func TestLeasesAreOvercome(t *testing.T) {
	task, keep := holding(t, 8<<20, func(*Task) {})
	f, err := os.OpenFile(task.Stdout, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	signal.Ignore(unix.SIGIO)
	defer signal.Reset(unix.SIGIO)
	lease := func() error {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		return err
	}
	if err := lease(); err != nil {
		t.Skip("no leases here:", err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for use(task.Stdout)+use(task.Stderr) > task.Limit {
		keep()
		if kind, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0); err == nil && kind != unix.F_WRLCK { // asked to give it back
			unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
			lease()
		}
		if time.Now().After(deadline) {
			t.Fatal("it was never cut")
		}
		time.Sleep(time.Millisecond)
	}
}
