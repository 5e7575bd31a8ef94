package block

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/internal/crash"
	"headrace/internal/testkit"
)

func openReal(t testing.TB, dir string, c Config) *Store {
	t.Helper()
	c.Dirs = []string{dir}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestRealPieces writes and reads blocks of several pieces on a real disk, with turns, in
// all sizes of reads.
func TestRealPieces(t *testing.T) {
	dir := t.TempDir()
	s := openReal(t, dir, Config{Turns: &disk.Scheduler{}})
	content := pattern(2*Piece + 12345)
	for id := range int64(3) {
		mustWrite(t, s, Block{id, 1}, 1, content)
	}
	var st unix.Stat_t
	if err := unix.Stat(s.volumes[0].path(1), &st); err != nil {
		t.Fatal(err)
	}
	if used := st.Blocks * 512; used > 3*(int64(len(content))+3*64<<10+3*page) {
		t.Errorf("three blocks of %d bytes take %d", len(content), used)
	}
	for _, c := range []struct{ off, n int64 }{{0, int64(len(content))}, {1, 1}, {Piece - 1, 2}, {Piece + 513, Piece}, {int64(len(content)) - 1, 1}, {700, 0}} {
		got, err := readAll(s, Block{1, 1}, c.off, c.n)
		from := down(c.off, Chunk)
		to := min(up(c.off+c.n, Chunk), int64(len(content)))
		if c.n == 0 {
			to = from
		}
		if err != nil || !bytes.Equal(got, content[from:to]) {
			t.Errorf("%d bytes at %d: %d, %v", c.n, c.off, len(got), err)
		}
	}
	if err := s.Delete(Block{1, 1}); err != nil {
		t.Fatal(err)
	}
	before := st.Blocks
	if err := unix.Stat(s.volumes[0].path(1), &st); err != nil || st.Blocks > before*2/3+64 {
		t.Errorf("after one of three was deleted: %d of %d, %v", st.Blocks, before, err)
	}
	if err := s.Delete(Block{0, 1}, Block{2, 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.volumes[0].path(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file without blocks: %v", err)
	}
}

// TestSeek: of a client that begins inside a block, and asks for all to its end, it is not known whether it wants so much. It gets a little at
// first, and more each time; nothing is read before it is asked for until then.
func TestSeek(t *testing.T) {
	s := openReal(t, t.TempDir(), Config{Turns: &disk.Scheduler{}})
	content := pattern(5*Piece + 12345)
	mustWrite(t, s, Block{1, 1}, 1, content)
	const from = Piece/2 + 7*Chunk
	r, err := s.Open(Block{1, 1}, from, int64(len(content))-from)
	must(t, err)
	defer r.Close()
	at, turns := int64(from), []int64{}
	for {
		if len(r.parts) == 0 {
			turns = append(turns, 0)
		}
		p, err := r.Next(context.Background())
		if err == io.EOF {
			break
		}
		must(t, err)
		if !bytes.Equal(p.Data, content[at:at+int64(len(p.Data))]) {
			t.Fatalf("wrong bytes at %d", at)
		}
		at += int64(len(p.Data))
		if turns[len(turns)-1] += int64(len(p.Data)); at-from < 2<<20 && r.ahead != nil {
			t.Errorf("more is read after %d bytes", at-from)
		}
	}
	if at != int64(len(content)) || turns[0] > 256<<10 || turns[1] > 1<<20 || len(turns) < 5 || slices.Max(turns) < Piece {
		t.Errorf("read to %d of %d, in turns of %d", at, len(content), turns)
	}
}

// TestSums: the checksums of whole chunks come without their bytes.
func TestSums(t *testing.T) {
	s := openReal(t, t.TempDir(), Config{Turns: &disk.Scheduler{}})
	content := pattern(2*Piece + 12345)
	mustWrite(t, s, Block{1, 1}, 1, content)
	for _, c := range []struct{ off, n int64 }{{0, down(int64(len(content)), Chunk)}, {Chunk, Chunk}, {Piece - Chunk, 2 * Chunk}, {Piece + 3*Chunk, Piece}, {0, 0}} {
		r, err := s.Open(Block{1, 1}, c.off, c.n)
		must(t, err)
		var got, want []byte
		for err == nil {
			var sums []byte
			sums, err = r.Sums(context.Background())
			got = append(got, sums...)
		}
		r.Close()
		for at := c.off; at < c.off+c.n; at += Chunk {
			want = binary.BigEndian.AppendUint32(want, sum(content[at:at+Chunk]))
		}
		if err != io.EOF || !bytes.Equal(got, want) {
			t.Errorf("%d bytes at %d: %d bytes of checksums, want %d; %v", c.n, c.off, len(got), len(want), err)
		}
	}
}

// TestKilledOnARealDisk ends a process that writes at named points and checks what it had
// said was flushed or synced.
func TestKilledOnARealDisk(t *testing.T) {
	if dir := os.Getenv("BLOCK_TEST_DIR"); dir != "" {
		writeForEver(dir)
		return
	}
	for _, point := range []string{"spill.data:40", "spill.sums:77", "sync.header:5", "sync.durable:9", "create.opened:3", "create.header:4",
		"final.header:2", "delete.header:1", "index.written:2", "index.durable:2", "rewind:3", ""} {
		dir := t.TempDir()
		for round := range 2 {
			said := killChild(t, dir, point, round)
			s := openReal(t, dir, Config{})
			compareWithSaid(t, s, point, said)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// killChild runs the writer until it dies, and returns what it said.
func killChild(t *testing.T, dir, point string, round int) map[int64]int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledOnARealDisk$")
	cmd.Env = append(os.Environ(), "BLOCK_TEST_DIR="+dir, crash.Env+"=block."+point, "GORACE=atexit_sleep_ms=0")
	if point == "" {
		cmd.Env = append(cmd.Env, crash.Env+"=")
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[int64]int64{}
	lines := 0
	for in := bufio.NewScanner(out); in.Scan(); lines++ {
		var id, n int64
		if _, err := fmt.Sscanf(in.Text(), "%d %d", &id, &n); err != nil {
			t.Fatalf("%q", in.Text())
		}
		said[id] = n
		if point == "" && lines == 150+50*round {
			cmd.Process.Kill() // somewhere
		}
	}
	cmd.Wait()
	if !strings.Contains(cmd.ProcessState.String(), "killed") {
		t.Fatalf("%s: %v\n%s", point, cmd.ProcessState, &stderr)
	}
	return said
}

func compareWithSaid(t *testing.T, s *Store, point string, said map[int64]int64) {
	t.Helper()
	for id, n := range said {
		info, err := s.Stat(id)
		if n == -2 && (err == nil || errors.Is(err, ErrNotFound)) {
			continue // it was being deleted
		}
		if n < 0 {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: block %d was deleted: %+v, %v", point, id, info, err)
			}
			continue
		}
		if err != nil || info.Length < n {
			t.Errorf("%s: block %d had %d bytes: %+v, %v", point, id, n, info, err)
			continue
		}
		got, err := readAll(s, Block{id, 1}, 0, info.Length)
		if err != nil || !bytes.Equal(got, childContent(id)[:len(got)]) {
			t.Errorf("%s: block %d: %v", point, id, err)
		}
	}
}

const childCapacity = 300 << 10

func childContent(id int64) []byte {
	r := rand.NewChaCha8([32]byte{byte(id), byte(id >> 8)})
	p := make([]byte, childCapacity)
	r.Read(p)
	return p
}

// writeForEver writes blocks and says what is flushed or deleted.
func writeForEver(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	s, err := Open(Config{Dirs: []string{dir}, piece: 4 * page})
	fail(err)
	first := int64(1)
	if all := s.Blocks(); len(all) > 0 {
		first = all[len(all)-1].ID + 10
	}
	for id := first; ; id++ {
		content := childContent(id)
		w, err := s.Create(Block{id, 1}, uint64(id%3), childCapacity, false)
		fail(err)
		for at := 0; at < len(content); at += 30000 {
			fail(w.Write(content[at:min(at+30000, len(content))], int64(at)))
			if at%4 == 0 {
				fail(w.Sync())
			} else {
				fail(w.Flush())
			}
			fmt.Println(id, w.Length())
			if at == 120000 {
				w, err = s.Recover(Block{id, 1}, 1, 0, childCapacity)
				fail(err)
			}
		}
		fail(w.Finalize(childCapacity))
		if id%4 == 0 && id > first+1 {
			fmt.Println(id-1, -2)
			fail(s.Delete(Block{id - 1, 1}))
			fmt.Println(id-1, -1)
			fail(s.Snapshot())
		}
	}
}

// TestRealFullDisk fills a small tmpfs.
func TestRealFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=20m"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s := openReal(t, dir, Config{KeepFree: 0.01})
	w := mustCreate(t, s, Block{1, 1}, 1, 19<<20)
	if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 9<<20), 0o600); err != nil {
		t.Fatal(err) // somebody else's, after the block was let in
	}
	content := pattern(19 << 20)
	flushed := 0
	var err error
	for flushed < len(content) {
		if err = errors.Join(w.Write(content[flushed:flushed+1<<20], int64(flushed)), w.Flush()); err != nil {
			break
		}
		flushed += 1 << 20
	}
	if !errors.Is(err, ErrFull) || errors.Is(err, ErrOut) || flushed == 0 {
		t.Fatalf("after %d bytes: %v", flushed, err)
	}
	w.Close()
	if got, err := readAll(s, Block{1, 1}, 0, int64(flushed)); err != nil || !bytes.Equal(got, content[:flushed]) {
		t.Errorf("what was flushed on the full disk: %v", err)
	}
	if _, err := s.Create(Block{2, 1}, 2, 5<<20, false); !errors.Is(err, ErrFull) {
		t.Errorf("another block: %v", err)
	}
	if err := s.Delete(Block{1, 1}); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, s, Block{3, 1}, 1, content[:5<<20])
}

// TestManyAtOnce has writers, readers who see blocks grow, fences, deletions, snapshots and
// a scrub at the same time, for the race detector.
func TestManyAtOnce(t *testing.T) {
	testkit.NoLeaks(t)
	s := openReal(t, t.TempDir(), Config{Turns: &disk.Scheduler{}, piece: 4 * page, Memory: 1 << 20})
	var all sync.WaitGroup
	var writing atomic.Int64
	stop := make(chan struct{})
	for g := range int64(4) {
		writing.Add(1)
		all.Go(func() {
			defer writing.Add(-1)
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range int64(25) {
				id := g*100 + i
				b := Block{id, 1}
				content := childContent(id)[:100000]
				w := mustCreate(t, s, b, uint64(id%2), childCapacity)
				for at := 0; at < len(content); {
					n := min(1+r.IntN(40000), len(content)-at)
					if err := errors.Join(w.Write(content[at:at+n], int64(at)), w.Flush()); err != nil {
						t.Error(err)
						return
					}
					if at += n; r.IntN(8) == 0 {
						b.Stamp++
						var err error
						if w, err = s.Recover(Block{id, 1}, b.Stamp, int64(at), int64(at)); err != nil {
							t.Error(err)
							return
						}
					}
				}
				if err := w.Finalize(int64(len(content))); err != nil {
					t.Error(err)
				}
				if i%5 == 4 {
					if err := s.Delete(Block{id - 1, 1 << 60}, Block{id - 2, 1 << 60}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	go func() {
		for writing.Load() > 0 {
			time.Sleep(time.Millisecond)
		}
		close(stop)
	}()
	for g := range 3 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, info := range s.Blocks() {
					off := r.Int64N(info.Length + 1)
					got, err := readAll(s, info.Block, off, info.Length-off)
					if err == nil && !bytes.Equal(got, childContent(info.ID)[down(off, Chunk):][:len(got)]) {
						t.Errorf("block %d: other bytes", info.ID)
					}
					if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrChanged) {
						t.Errorf("block %d: %v", info.ID, err)
					}
				}
			}
		})
	}
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(s.Snapshot(), s.Scrub(context.Background(), 1<<40)); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if len(s.Blocks()) != 4*(25-10) {
		t.Errorf("there are %d blocks", len(s.Blocks()))
	}
	for _, b := range s.Blocks() {
		if b.Damaged || b.State != Final {
			t.Errorf("%+v", b)
		}
	}
}

// dropAll takes the files below a directory out of memory.
func dropAll(b *testing.B, dir string) {
	filepath.Walk(dir, func(p string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() {
			testkit.DropFile(b, p)
		}
		return nil
	})
}

// BenchmarkRead reads 16 blocks of 16 MB, by 1 reader or by 16 at once with a block each,
// out of one combined file, or out of plain files of 16 MB without checksums, by io.Copy.
// Files are dropped from memory first.
func BenchmarkRead(b *testing.B) {
	const blocks, size = 16, 16 << 20
	dir := b.TempDir()
	s := openReal(b, filepath.Join(dir, "store"), Config{Turns: &disk.Scheduler{}})
	content := pattern(size)
	for id := range int64(blocks) {
		mustWrite(b, s, Block{id, 1}, 1, content)
		testkit.File(b, dir, fmt.Sprint(id), size, 0o600)
	}
	if err := s.Snapshot(); err != nil {
		b.Fatal(err)
	}
	for _, cold := range []bool{true, false} {
		for _, readers := range []int{1, 16} {
			for _, kind := range []string{"blocks", "plain"} {
				b.Run(fmt.Sprintf("cold=%v/readers=%d/%s", cold, readers, kind), func(b *testing.B) {
					b.SetBytes(blocks * size)
					for b.Loop() {
						if cold {
							b.StopTimer()
							dropAll(b, dir)
							b.StartTimer()
						}
						readBlocks(b, s, dir, kind, readers, blocks, size)
					}
				})
			}
		}
	}
}

func readBlocks(b *testing.B, s *Store, dir, kind string, readers, blocks int, size int64) {
	next := make(chan int64, blocks)
	for id := range int64(blocks) {
		next <- id
	}
	close(next)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for id := range next {
				if kind == "plain" {
					f, err := os.Open(filepath.Join(dir, fmt.Sprint(id)))
					if err != nil {
						b.Error(err)
						return
					}
					io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 128<<10))
					f.Close()
					continue
				}
				r, err := s.Open(Block{id, 1}, 0, size)
				for err == nil {
					_, err = r.Next(context.Background())
				}
				if err != io.EOF {
					b.Error(err)
				}
				r.Close()
			}
		})
	}
	all.Wait()
}
