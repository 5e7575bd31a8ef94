package settings

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"headrace"
	"headrace/internal/accounts"
	"headrace/limits"
)

// load reads the settings of a daemon that has one.
func load(t *testing.T, args ...string) *Settings {
	t.Helper()
	var own Flags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.Define(flags)
	flags.Int("slots", 1, "")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	s, err := Load(flags, &own, []string{"slots"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReload: limits that are read again count, a file with a mistake anywhere
// changes nothing, and says where the mistake is.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headrace.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[limits]\nwaiting = 5\n")
	s := load(t, "--config", path, "--limit", "priority=low")
	eve := limits.Who{UID: 5, Name: "eve"}
	var log bytes.Buffer
	reload := func(text string, waiting int64, says string) {
		t.Helper()
		write(text)
		log.Reset()
		s.reload(slog.New(slog.NewTextHandler(&log, nil)))
		got := s.Limits.Now().Of(eve)
		if got.Waiting != waiting || got.Priority != headrace.Low {
			t.Errorf("%q: %+v, want %d waiting and low", text, got, waiting)
		}
		if !strings.Contains(log.String(), says) {
			t.Errorf("%q: the log says %s, want %q", text, &log, says)
		}
	}
	reload("[limits]\nwaiting = 6\n", 6, "read again")
	reload("[limits]\nwaiting = 7\n[limits user bob]\nslots = x\n", 6, path+":4: slots = x")
	reload("[limits]\nwaiting = 7\n[daemon]\nslot = 2\n", 6, path+":4: slot is unknown")
	reload("[limits]\nwaiting = 7\n[daemon]\nslots = 2\n", 7, "read again")
	os.Remove(path)
	s.reload(slog.New(slog.NewTextHandler(&log, nil)))
	if got := s.Limits.Now().Of(eve).Waiting; got != 7 {
		t.Errorf("without the file: %d", got)
	}
}

// TestGiven: what is in the file counts as given, as it does where 0 is no default.
func TestGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headrace.conf")
	if err := os.WriteFile(path, []byte("[daemon]\nslots = 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := load(t, "--config", path); !s.flags.Changed("slots") {
		t.Error("a setting of the file does not count as given")
	}
	if s := load(t, "--config", ""); s.flags.Changed("slots") {
		t.Error("what is not there counts as given")
	}
}

// later is a machine on which one group is known by now.
type later struct{}

func (later) User(string) (accounts.Account, error) { return accounts.Account{}, accounts.ErrUnknown }

func (later) Group(name string) (uint32, error) {
	if name == "no-such-group" {
		return 4002, nil
	}
	return 0, accounts.ErrUnknown
}

// TestUnknownNamesOfLimits: a daemon starts with names that nobody knows, says so, and their limits hold
// when they are known.
func TestUnknownNamesOfLimits(t *testing.T) {
	s := load(t, "--config", "", "--limit", "group:no-such-group:waiting=5", "--limit", "group:nor-this-one:running=9")
	eve := limits.Who{UID: 5, Name: "eve"}
	if l := s.Limits.Now().Of(eve); l.Waiting != 5 || l.Running != 9 {
		t.Errorf("before: %+v", l)
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	s.sayUnknown(log)
	for _, want := range []string{"level=ERROR", "no-such-group", "nor-this-one"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, &said)
		}
	}
	s.resolve(log, later{})
	if l := s.Limits.Now().Of(eve); l.Waiting == 5 || l.Running != 9 {
		t.Errorf("after: %+v", l)
	}
	if l := s.Limits.Now().Of(limits.Who{UID: 5, Name: "eve", GID: 4002}); l.Waiting != 5 {
		t.Errorf("in the group: %+v", l)
	}
}

// TestHangupWithoutAFile: the daemon of a service goes on when it is reloaded and its settings are not there.
func TestHangupWithoutAFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's daemon has a file by default")
	}
	if defaultFile() != "" {
		t.Skip(defaultConfig + " is there")
	}
	s := load(t)
	log, to := io.Pipe()
	s.Keep(t.Context(), slog.New(slog.NewTextHandler(to, nil)))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(log).ReadString('\n'); err != nil || !strings.Contains(line, "is not there") {
		t.Errorf("%q, %v", line, err)
	}
}

// TestCheckWithoutRoot: who is not root is not told that nothing is wrong with a file that only root's daemon reads.
func TestCheckWithoutRoot(t *testing.T) {
	defer func(path string) { defaultConfig = path }(defaultConfig)
	there := filepath.Join(t.TempDir(), "headrace.conf")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file         string
		check, given bool
		euid         int
		refused      bool
	}{
		{there, true, false, 1000, true}, {there, true, true, 1000, false}, {there, false, false, 1000, false},
		{there, true, false, 0, false}, {there + ".none", true, false, 1000, false},
	} {
		defaultConfig = c.file
		err := (&Flags{Check: c.check}).checksNothing(c.given, c.euid)
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
