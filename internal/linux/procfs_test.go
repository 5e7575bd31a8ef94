package linux

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	rest := " S 1 7 7 0 -1 4194560 1 0 0 0 12 34 5 6 20 0 3 0 4711 0 0 0 0 0 0 0 0 0 65536 4 524288 0 0"
	for _, comm := range []string{"sh", "a b", "a) (b", "", ")", "x\ny"} {
		got, err := ParseStat([]byte("42 (" + comm + ")" + rest))
		want := Stat{PID: 42, PPID: 1, PGID: 7, SID: 7, Comm: comm, State: 'S', User: 120 * time.Millisecond,
			System: 340 * time.Millisecond, ChildUser: 50 * time.Millisecond, ChildSystem: 60 * time.Millisecond,
			Threads: 3, Start: 47110 * time.Millisecond, Blocked: 1 << 16, Ignored: 4, Caught: 1 << 19}
		if err != nil || got != want || !got.Catches(syscall.SIGTSTP) || !got.Blocks(syscall.SIGCHLD) || got.Catches(syscall.SIGCHLD) {
			t.Errorf("%q: %+v, %v", comm, got, err)
		}
	}
	for _, bad := range []string{"", "42", "42 (sh", "42 (sh)", "(sh)" + rest, "x (sh)" + rest, "42 (sh) SS" + rest[2:], "42 (sh) S x" + rest[4:]} {
		if _, err := ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParseStatus(t *testing.T) {
	s, err := ParseStatus([]byte("Name:\tx: y\nTracerPid:\t12\nUid:\t1000\t0\t0\t0\nVmRSS:\t 123 kB\nRssAnon:\t 100 kB\nRssFile:\t 20 kB\nRssShmem:\t 3 kB\nVmSwap:\t 7 kB\nVmHWM:\t200 kB\nSigPnd:\t0000000000000002\nShdPnd:\t0000000000000004\n"))
	want := Status{RSS: 123 << 10, RSSAnon: 100 << 10, RSSShmem: 3 << 10, Swap: 7 << 10, PeakRSS: 200 << 10, Pending: 6, Tracer: 12, UID: 1000}
	if err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"RssAnon: x kB\n", "VmSwap: -1 kB\n", "SigPnd: zz\n", "TracerPid: x\n", "Uid:\t-1\t0\n", "Uid:\n", "RssAnon: 99999999999999999999 kB\n"} {
		if _, err := ParseStatus([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParseRollup(t *testing.T) {
	const text = "5f0000-7ff000 ---p 00000000 00:00 0 [rollup]\nRss: 90 kB\nPss: 60 kB\nPss_Dirty: 1 kB\nPss_Anon: 30 kB\nPss_File: 20 kB\nPss_Shmem: 10 kB\nSwap: 9 kB\nSwapPss: 8 kB\n"
	if resident, swapped, err := parseRollup([]byte(text)); err != nil || resident != 40<<10 || swapped != 8<<10 {
		t.Errorf("%d resident, %d swapped, %v", resident, swapped, err)
	}
	for _, bad := range []string{"", strings.Replace(text, "Pss_Anon", "Anon", 1), strings.Replace(text, "10 kB", "x kB", 1), strings.Replace(text, "SwapPss", "Swap", 1)} {
		if _, _, err := parseRollup([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestSplit(t *testing.T) {
	got := split([]Range{{0, 10}, {20, 20}, {30, 33}}, 4)
	want := []Range{{0, 4}, {4, 8}, {8, 10}, {30, 33}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The parsers agree with the kernel about this very process.
func TestOwnProcess(t *testing.T) {
	var p ProcFS
	s, err := p.Stat(os.Getpid())
	if err != nil || s.PID != os.Getpid() || s.PPID != os.Getppid() || !strings.ContainsRune("RSD", rune(s.State)) {
		t.Errorf("%+v, %v", s, err)
	}
	st, err := p.Status(os.Getpid())
	if err != nil || st.RSSAnon <= 0 || !s.Catches(syscall.SIGURG) {
		t.Errorf("%+v, %v", st, err)
	}
	threads := 0
	if err := p.ThreadStates(os.Getpid(), func(int, byte) bool { threads++; return true }); err != nil || threads != s.Threads && threads < 2 {
		t.Errorf("%d threads, %v", threads, err)
	}
	if r, err := p.Anonymous(os.Getpid()); err != nil || len(r) == 0 {
		t.Errorf("%v, %v", r, err)
	}
	all, err := p.All()
	found := false
	for _, s := range all {
		found = found || s.PID == os.Getpid()
	}
	if err != nil || !found {
		t.Errorf("this process is not among all %d, %v", len(all), err)
	}
	if m, err := p.MemInfo(); err != nil || m.Total <= m.Available || m.Available <= 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := p.Stat(1 << 30); !Gone(err) {
		t.Errorf("a process that cannot be: %v", err)
	}
}

func TestWriteFiles(t *testing.T) {
	for name, write := range map[string]func(string, []byte, os.FileMode) error{"durably": WriteFileDurably, "replace": ReplaceFile} {
		dir := t.TempDir()
		path := dir + "/f"
		for _, text := range []string{"one", "two"} {
			if err := write(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); string(b) != text {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		if err := write(dir+"/no/f", nil, 0o600); err == nil {
			t.Errorf("%s: wrote into a directory that does not exist", name)
		}
		if err := os.Mkdir(dir+"/d", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := write(dir+"/d", nil, 0o600); err == nil {
			t.Errorf("%s: replaced a directory", name)
		}
		if left, err := os.ReadDir(dir); len(left) != 2 {
			t.Errorf("%s: left behind: %v, %v", name, left, err)
		}
	}
}

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	file, link := dir+"/file", dir+"/link"
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	f, err := OpenRegular(file, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(2); err != nil {
		t.Error(err)
	}
	f.Close()
	for path, want := range map[string]error{
		link: syscall.EINVAL, "/dev/null": syscall.EINVAL, dir: syscall.EINVAL, dir + "/no": syscall.ENOENT,
	} {
		if _, err := OpenRegular(path, os.O_RDONLY); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte("42 (sh) S 1 7 7 0 -1 4194560 1 0 0 0 12 34 5 6 20 0 3 0 4711 0 0 0 0 0 0 0 0 0 65536 4 524288 0 0"))
	f.Add([]byte("RssAnon:\t 100 kB\nSigPnd:\t00ff\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ParseStat(b)
		if s, err := ParseStatus(b); err == nil && min(s.RSSAnon, s.RSSShmem, s.Swap, s.PeakRSS) < 0 {
			t.Errorf("negative memory %+v", s)
		}
		ParseMemInfo(b)
	})
}
