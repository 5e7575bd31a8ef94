package pagecache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

const mib = 1 << 20

// dropped makes a file that is not in memory.
func dropped(t *testing.T, name string, size int) *os.File {
	t.Helper()
	f, err := os.Create(name)
	if err == nil {
		t.Cleanup(func() { f.Close() })
		_, err = f.Write(make([]byte, size))
	}
	if err == nil {
		err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		runChild(t, "user", t.TempDir(), nil)
		return
	}
	dir := diskDir(t)
	dropped(t, filepath.Join(dir, "of-root"), mib)
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Join(dir, "of-root"), 0o644)); err != nil {
		t.Fatal(err)
	}
	runChild(t, "user", dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
}

// asUser returns what an ordinary user can do, and is told of what not.
func asUser(dir string) error {
	const limit = 4 * mib
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	if linux.ProbeCachestat() != nil {
		return nil
	}
	var errs []error
	expect := func(what string, fine bool, got ...any) {
		if !fine {
			errs = append(errs, fmt.Errorf("%s: %v", what, got))
		}
	}
	_, err := New(Config{Method: BPF})
	var missing *CapabilityError
	expect("BPF", errors.As(err, &missing) && strings.Contains(missing.Need, "CAP_BPF"), err)
	_, err = New(Config{Budget: 64 * mib})
	expect("budget", errors.Is(err, ErrUnsafeBudget) && strings.Contains(err.Error(), "RLIMIT_MEMLOCK"), err)
	c, err := New(Config{})
	if err != nil {
		return err
	}
	m, why := c.Method()
	expect("method", m == Cachestat && strings.Contains(why, "CAP_BPF"), m, why)
	expect("budget", c.Budget() == limit, c.Budget())
	c.Close()

	// With limits that are not the true ones it is the kernel that refuses.
	c, err = New(Config{Budget: 64 * mib, Limits: &Limits{Memory: 1 << 40, Lock: Unlimited}})
	if err != nil {
		return err
	}
	defer c.Close()
	own, err := os.Create(filepath.Join(dir, "own"))
	if err == nil {
		_, err = own.Write(make([]byte, 8*mib))
	}
	if err == nil {
		err = errors.Join(own.Sync(), c.Evict(own, Range{Len: 8 * mib}))
	}
	if err != nil {
		return err
	}
	defer own.Close()
	ctx := context.Background()
	_, err = c.Pin(ctx, own, Range{Len: 8 * mib}, nil)
	expect("too much", errors.Is(err, ErrLockLimit) && strings.Contains(err.Error(), "ulimit -l") && c.Pinned() == 0, err, c.Pinned())
	errs = append(errs, c.Evict(own, Range{Len: 8 * mib}))
	p, err := c.Pin(ctx, own, Range{Len: limit}, nil)
	expect("enough", err == nil && c.Pinned() == limit, err, c.Pinned())
	if err == nil {
		errs = append(errs, p.Release(), c.Evict(own, Range{Len: 8 * mib}))
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}); err != nil {
		return err
	}
	_, err = c.Pin(ctx, own, Range{Len: 1}, nil)
	expect("nothing allowed", errors.Is(err, ErrLockLimit) && c.Pinned() == 0, err)

	other, err := os.Open(filepath.Join(dir, "of-root"))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errs...)
	}
	if err != nil {
		return err
	}
	defer other.Close()
	_, err = c.Resident(other, Range{Len: mib})
	expect("another's file", errors.Is(err, fs.ErrPermission) && strings.Contains(err.Error(), "owner"), err)
	_, err = c.Watch(other)
	expect("another's file, watched", errors.Is(err, fs.ErrPermission), err)
	return errors.Join(errs...)
}

// The budget that is taken below a memory limit can be used up, and the process
// lives: past the limit of its cgroup it would be killed.
func TestBudgetBelowAMemoryLimit(t *testing.T) {
	cg := memoryCgroup(t, 128*mib)
	dir := diskDir(t)
	dropped(t, filepath.Join(dir, "f"), 96*mib)
	t.Setenv("PAGECACHE_TEST_CGROUP", cg)
	runChild(t, "cgroup", dir, nil)
}

func inCgroup(dir string) error {
	cg := os.Getenv("PAGECACHE_TEST_CGROUP")
	if err := linux.JoinCgroups([]string{cg}); err != nil {
		return err
	}
	_, err := New(Config{Budget: 120 * mib})
	if !errors.Is(err, ErrUnsafeBudget) || !strings.Contains(err.Error(), filepath.Base(cg)) {
		return fmt.Errorf("a budget near the limit: %v", err)
	}
	c, err := New(Config{})
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Budget() < 32*mib || c.Budget() > 64*mib {
		return fmt.Errorf("a budget of %d", c.Budget())
	}
	f, err := os.Open(filepath.Join(dir, "f"))
	if err != nil {
		return err
	}
	defer f.Close()
	ctx := context.Background()
	if _, err := c.Pin(ctx, f, Range{Len: c.Budget()}, nil); err != nil {
		return err
	}
	n, err := c.Resident(f, Range{Len: c.Budget()})
	if n != c.Budget() || err != nil {
		return fmt.Errorf("%d bytes are resident, %v", n, err)
	}
	// The rest of the file passes through what is left.
	b := make([]byte, mib)
	for off := int64(0); off < 96*mib; off += mib {
		if _, err := f.ReadAt(b, off); err != nil {
			return err
		}
	}
	if _, err := c.Pin(ctx, f, Range{Off: 64 * mib, Len: 1}, nil); !errors.Is(err, ErrBudget) {
		return fmt.Errorf("past the budget: %v", err)
	}
	return nil
}

// What somebody else has read stays theirs to lose: nothing of it is locked while it is charged to their cgroup.
func TestPinLeavesOthersTheirs(t *testing.T) {
	const size = 32 * mib
	for _, c := range []struct {
		name  string
		every int64 // how much of each MiB is read
		err   error
	}{{"a tenth of it", mib / 10, nil}, {"all of it", mib, ErrResident}} {
		t.Run(c.name, func(t *testing.T) {
			cg, dir := memoryCgroup(t, 128*mib), diskDir(t)
			f := dropped(t, filepath.Join(dir, "f"), size)
			t.Setenv("PAGECACHE_TEST_CGROUP", cg)
			t.Setenv("PAGECACHE_TEST_EVERY", strconv.FormatInt(c.every, 10))
			reader := child("reader", dir)
			in, err := reader.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := reader.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			reader.Stderr = os.Stderr
			if err := reader.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				in.Close()
				if err := reader.Wait(); err != nil {
					t.Error(err)
				}
			}()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(line, err)
			}
			pages := newMethod(t, Config{Method: Cachestat, Budget: size})
			if n, err := pages.Resident(f, Range{Len: size}); err != nil || n < size/mib*c.every {
				t.Fatalf("%d bytes are in memory, %v", n, err)
			}
			p, err := pages.Pin(t.Context(), f, Range{Len: size}, nil)
			if !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			if n := unevictable(t, cg); n != 0 {
				t.Errorf("%d bytes of the reader's cgroup cannot be evicted any more", n)
			}
			if p != nil {
				// A page that the reader has mapped is the only one that is not kept.
				if n, all := lockedMemory(t), int64(size-mib); n != all {
					t.Errorf("%d bytes are locked, want %d", n, all)
				}
				if err := p.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// readAsOther reads a part of each MiB of a file in a cgroup, maps the first page, and waits.
func readAsOther(dir string) error {
	if err := linux.JoinCgroups([]string{os.Getenv("PAGECACHE_TEST_CGROUP")}); err != nil {
		return err
	}
	every, err := strconv.Atoi(os.Getenv("PAGECACHE_TEST_EVERY"))
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(dir, "f"))
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
		return err
	}
	for off := int64(0); off < st.Size(); off += mib {
		if _, err := f.ReadAt(make([]byte, every), off); err != nil {
			return err
		}
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	fmt.Println("ready", mem[0])
	io.Copy(io.Discard, os.Stdin)
	return unix.Munmap(mem)
}

// unevictable returns how many bytes of a cgroup's memory cannot be evicted.
func unevictable(t *testing.T, cg string) (n int64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cg, "memory.stat"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "unevictable %d", &n); err == nil {
			return n
		}
	}
	t.Fatalf("nothing of it in %s", text)
	return 0
}

// memoryCgroup makes a memory cgroup with a limit.
func memoryCgroup(t *testing.T, limit int) string {
	t.Helper()
	for _, v := range [][2]string{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir := filepath.Join(v[0], fmt.Sprintf("pagecache-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o700) != nil {
			continue
		}
		t.Cleanup(func() { // who was in it may be on its way out yet
			testkit.Await(t, "the cgroup to be removed", func() bool { return os.Remove(dir) == nil })
		})
		if err := os.WriteFile(filepath.Join(dir, v[1]), []byte(strconv.Itoa(limit)), 0); err == nil {
			return dir
		}
	}
	t.Skip("no memory cgroup can be made here")
	return ""
}
