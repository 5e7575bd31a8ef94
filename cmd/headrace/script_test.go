package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/protobuf/proto"

	"headrace/cli/clitest"
	"headrace/cmd/headrace/jsonout"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/solo"
	"headrace/wire"
)

var update = flag.Bool("update", false, "rewrite the golden output in testdata")

func TestMain(m *testing.M) {
	syscall.Umask(0o027)
	testscript.Main(testkit.M{M: m}, map[string]func(){"headrace": main})
}

// TestScript runs the command line against a fake daemon. Besides the usual
// commands, scripts have:
//
//	status N prog arg...        run it; its exit code must be N
//	start NAME prog arg...      run it in the background
//	printed NAME REGEXP         wait until its standard output so far matches
//	wrote NAME REGEXP           likewise its standard error
//	interrupt NAME              send it SIGINT
//	finish NAME N               wait for it; its exit code must be N
//	fake watched ID             wait until somebody watches the task
//	fake logged ID              wait until somebody follows its log
//	fake state ID STATE [REASON...]
//	fake end ID CODE [SIGNAL]   the task ends, done or failed
//	fake write ID stdout|stderr TEXT    a line
//	fake text ID stdout|stderr TEXT     without an end of line
//	fake fail METHOD CODE TEXT  the next call of the method (METHOD:ID of a verb: for that task) ends so
//	fake ends ID done|forgotten the task runs, and ends or is forgotten when the next verb is for it
//	fake follows N              no more than N Watch and Logs streams at a time
//	fake together N             verbs are answered once N calls are there
//	fake stop | fake start      the daemon dies, a new one comes up
//	fake request FILE           write the last run request to FILE as JSON
//	fake verb FILE              likewise the last request of another verb
//	fake dealt ID N             N bytes of the task's input have been dealt
//	fake old                    it is one of before there were inputs; of files, after the next start
//	fake warming ID             wait until somebody waits for the warm request
//	fake warm ID JSON           fields of its status change
//	fake spooled FILE           the standard input of the last run request is a file that holds the same
//	fake kept FILE              what was piped and is kept for its owner is one file that holds the same; it is removed
//	fake unspooled              nothing is left of what was piped, but to the last run request
//	fake data FILE              write the last request about files to FILE as JSON
//
// A file tasks.json (a ListResponse) is what the daemon knows at the start; no
// such file, no daemon. A file data.json (see fakeData) is what it knows of files.
// There is the condition [cachestat].
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup:               setupFake,
		Condition:           scriptCondition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": clitest.Status, "start": cmdStart, "printed": cmdPrinted, "wrote": cmdWrote, "interrupt": cmdInterrupt, "finish": cmdFinish, "fake": cmdFake,
		},
	})
}

// TestScriptAlone runs scripts of what needs no daemon, with the program as it is built: the race detector
// finds nothing in the reading of flags, and simulations that run beside each other are tested in this
// process. Short tests build nothing.
func TestScriptAlone(t *testing.T) {
	setup := setupFake
	if !testing.Short() {
		bin := filepath.Dir(testkit.Headrace(t))
		setup = func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return setupFake(env)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/alone",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup:               setup,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"status": clitest.Status},
	})
}

func scriptCondition(name string) (bool, error) {
	if name == "cachestat" {
		return linux.ProbeCachestat() == nil, nil
	}
	return false, fmt.Errorf("unknown condition %s", name)
}

type scriptKey struct{}

type scriptState struct {
	fake       *fakeDaemon // in TestScript
	daemon     *realDaemon // in TestReal
	background map[string]*background
}

func stateIn(ts *testscript.TestScript) *scriptState {
	return ts.Value(scriptKey{}).(*scriptState)
}

func setupFake(env *testscript.Env) error {
	stateDir := filepath.Join(env.WorkDir, "state")
	env.Setenv("HEADRACE_STATE_DIR", stateDir)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("TZ", "UTC")
	env.Setenv("LANG", "C.UTF-8")
	// Else every process that the race detector watches sleeps a second at its end.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	fake := newFake(stateDir)
	env.Values[scriptKey{}] = &scriptState{fake: fake, background: map[string]*background{}}
	tasks := filepath.Join(env.WorkDir, "tasks.json")
	if _, err := os.Stat(tasks); err != nil {
		return nil
	}
	if err := fake.load(tasks); err != nil {
		return err
	}
	if err := fake.loadData(filepath.Join(env.WorkDir, "data.json")); err != nil {
		return err
	}
	env.Defer(func() {
		for _, path := range fake.piped() { // nobody ends the tasks
			os.Remove(path)
		}
		if fake.server != nil {
			fake.stop()
		}
	})
	return fake.start()
}

func cmdFake(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: fake VERB [arg...]")
	}
	f := stateIn(ts).fake
	verb, args := args[0], args[1:]
	switch verb {
	case "stop":
		f.stop()
	case "start":
		ts.Check(f.start())
	case "watched":
		f.awaitOne(ts, f.watching, args[0])
	case "logged":
		f.awaitOne(ts, f.logging, args[0])
	case "state":
		f.set(ts, args[0], func(t *wire.Task) { t.State, t.Reason = args[1], strings.Join(args[2:], " ") })
	case "end":
		f.set(ts, args[0], func(t *wire.Task) { end(ts, t, args[1:]) })
	case "write", "text":
		text := strings.TrimSuffix(args[2]+"\n", map[string]string{"text": "\n"}[verb])
		stream := map[string]wire.Stream{"stdout": wire.Stream_STREAM_STDOUT, "stderr": wire.Stream_STREAM_STDERR}[args[1]]
		f.change(func() {
			f.chunks[args[0]] = append(f.chunks[args[0]], &wire.LogChunk{Data: []byte(text), Stream: stream})
		})
	case "fail":
		var code connect.Code
		ts.Check(code.UnmarshalText([]byte(args[1])))
		f.change(func() { f.fail[args[0]] = connect.NewError(code, errors.New(strings.Join(args[2:], " "))) })
	case "spooled":
		got, err := os.ReadFile(f.stdin())
		ts.Check(err)
		if got, want := string(got), ts.ReadFile(args[0]); got != want {
			ts.Fatalf("the task is given %q, want %q", got, want)
		}
	case "kept":
		paths, _ := filepath.Glob(strings.Replace(f.pipedPrefix(), "headrace-stdin-", "headrace-kept-", 1) + "*")
		if len(paths) != 1 {
			ts.Fatalf("%q are kept, want one", paths)
		}
		if got, want := ts.ReadFile(paths[0]), ts.ReadFile(args[0]); got != want {
			ts.Fatalf("%q is kept, want %q", got, want)
		}
		ts.Check(os.Remove(paths[0]))
	case "unspooled":
		left := slices.DeleteFunc(f.piped(), func(path string) bool { return path == f.stdin() })
		if len(left) > 0 {
			ts.Fatalf("%q are left", left)
		}
	case "ends":
		f.set(ts, args[0], func(t *wire.Task) { t.State = "running"; f.ends[args[0]] = args[1] })
	case "follows":
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		f.change(func() { f.follows = n })
	case "together":
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		f.change(func() { f.together, f.waiting = n, 0 })
	case "request", "verb", "data":
		f.save(ts, verb, ts.MkAbs(args[0]))
	case "dealt":
		n, err := strconv.ParseInt(args[1], 10, 64)
		ts.Check(err)
		f.set(ts, args[0], func(t *wire.Task) { t.Input.Dealt = n })
	case "old":
		f.change(func() { f.data.old = true })
	case "warming":
		f.awaitOne(ts, f.data.waiting, args[0])
	case "warm":
		ts.Check(f.warm(args[0], args[1]))
	default:
		ts.Fatalf("fake %s: no such thing", verb)
	}
}

func (f *fakeDaemon) awaitOne(ts *testscript.TestScript, streams map[string]int, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ts.Check(f.await(ctx, func() bool { return streams[id] > 0 }))
}

func (f *fakeDaemon) set(ts *testscript.TestScript, id string, do func(*wire.Task)) {
	f.change(func() {
		t := f.task(id)
		if t == nil {
			ts.Fatalf("the fake daemon has no task %s", id)
		}
		do(t)
	})
}

func end(ts *testscript.TestScript, t *wire.Task, args []string) {
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	t.ExitCode, t.State = int32(code), "done"
	if code != 0 {
		t.State = "failed"
	}
	if len(args) > 1 {
		signal, err := strconv.Atoi(args[1])
		ts.Check(err)
		t.Signal, t.ExitCode = int32(signal), int32(128+signal)
		t.State = "failed"
	}
}

func (f *fakeDaemon) stdin() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lastRun.GetStdin()
}

// piped returns the files with what was piped to tasks of the daemon.
func (f *fakeDaemon) piped() []string {
	paths, _ := filepath.Glob(f.pipedPrefix() + "*")
	return paths
}

// pipedPrefix begins the paths of such files.
func (f *fakeDaemon) pipedPrefix() string {
	one, err := solo.MakePiped(filepath.Dir(f.socket))
	if err != nil {
		return err.Error()
	}
	defer one.Close()
	os.Remove(one.Name())
	name := one.Name()
	return name[:strings.LastIndexByte(name, '-')+1]
}

// save writes a request; of the environment only variables that begin with HR_.
func (f *fakeDaemon) save(ts *testscript.TestScript, verb, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var m proto.Message = f.lastVerb
	switch verb {
	case "data":
		m = f.data.last
	case "request":
		req := proto.CloneOf(f.lastRun)
		if len(req.Limits) == 0 || req.Nice == nil {
			ts.Fatalf("the request does not say what the caller's limits are: %v", req)
		}
		req.Limits, req.Nice = nil, nil // those of whoever runs the test
		req.Env = slices.DeleteFunc(req.Env, func(e string) bool { return !strings.HasPrefix(e, "HR_") })
		m = req
	}
	var b bytes.Buffer
	ts.Check(jsonout.Write(&b, m))
	ts.Check(os.WriteFile(path, b.Bytes(), 0o600))
}
