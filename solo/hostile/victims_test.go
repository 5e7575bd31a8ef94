package hostile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"headrace/internal/testkit"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// plant makes files, tasks, requests and streams of root and of another user. The
// marker is in all of their contents, and in names that the attacker is not told.
func (w *world) plant() {
	w.Helper()
	for _, owner := range []struct {
		dir string
		uid int
	}{{"victim", victimUID}, {"root", 0}} {
		dir, uid := filepath.Join(w.dir, owner.dir), owner.uid
		w.must(os.MkdirAll(filepath.Join(dir, "d"), 0o700))
		secret := strings.Repeat(w.marker+" is not for you\n", 1000)
		w.brief.SecretSize = len(secret)
		for name, mode := range map[string]os.FileMode{
			"secret.txt": 0o600, "log": 0o644, "closed.csv": 0o644, "hidden-" + w.marker: 0o600, "d/f": 0o600, "d/hidden-" + w.marker: 0o644,
		} {
			path := filepath.Join(dir, name)
			w.must(os.WriteFile(path, []byte(secret), mode))
			w.must(os.Chmod(path, mode))
			w.brief.Files = append(w.brief.Files, path)
		}
		w.must(syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		w.must(filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			w.must(err)
			return os.Lchown(path, uid, uid)
		}))
		w.must(os.Chmod(dir, 0o700))
		w.brief.Dirs = append(w.brief.Dirs, dir, filepath.Join(dir, "d"))
		w.plants = append(w.plants, dir)
	}
	b := w.brief
	b.Marker, b.Home = w.marker, filepath.Join(w.dir, "victim")
	out, said := w.runAs("victim", victimUID, b)
	if said != "" {
		w.Fatal("the victim:", said)
	}
	w.must(json.Unmarshal(out, &w.brief))
	root := w.rootsTask()
	for _, id := range append(w.brief.Tasks, root) {
		dir := filepath.Join(w.brief.StateDir, "tasks", id)
		w.brief.Dirs = append(w.brief.Dirs, dir)
		for _, name := range []string{"stdout", "stderr", "spec.json"} {
			w.brief.Files = append(w.brief.Files, filepath.Join(dir, name))
		}
		w.plants = append(w.plants, filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr"))
	}
	w.brief.Tasks = append(w.brief.Tasks, root)
	for _, name := range []string{"checkpoints", "streams", "scratch", "bin"} {
		w.brief.Dirs = append(w.brief.Dirs, filepath.Join(w.brief.StateDir, name))
	}
	w.brief.Dirs = append(w.brief.Dirs, filepath.Join(w.dir, "logs"))
	w.brief.Files = append(w.brief.Files, filepath.Join(w.brief.StateDir, "state.db"), filepath.Join(w.dir, "logs", "token"))
	if dir := filepath.Join(w.brief.StateDir, "checkpoints", root); exists(dir) {
		w.plants = append(w.plants, dir)
	}
	w.plants = append(w.plants, filepath.Join(w.dir, "logs", "token"))
	w.brief.PIDs = append(w.brief.PIDs, w.supervisors()...)
	// What the attacker is told has no secret in it.
	open := w.brief.Files[:0]
	for _, path := range w.brief.Files {
		if !strings.Contains(path, w.marker) {
			open = append(open, path)
		}
	}
	w.brief.Files = open
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// rootsTask returns a task of root's, checkpointed where that is possible.
func (w *world) rootsTask() string {
	w.Helper()
	res, err := w.client.Run(w.ctx(), &wire.RunRequest{
		Argv: []string{"/bin/sh", "-c", "echo " + w.marker + "; sleep 100000"}, Name: w.marker, Cpus: 0.01, Env: []string{"SECRET=" + w.marker}, Priority: 8,
	})
	w.must(err)
	w.await(res.Id, "running")
	if _, err := w.client.Checkpoint(w.ctx(), &wire.VerbRequest{Id: res.Id}); err != nil {
		w.Log("left out: root has no checkpoint here:", err)
	}
	return res.Id
}

func (w *world) await(id, state string) {
	w.Helper()
	var task *wire.Task
	testkit.Await(w, "task "+id+" to be "+state, func() bool {
		var err error
		task, err = w.client.Get(w.ctx(), &wire.GetRequest{Id: id})
		w.must(err)
		return task.State == state && task.Doing == ""
	}, func() string { return task.State + " (" + task.Reason + ")" })
}

// supervisors returns the processes whose command lines or environments are of the
// victims' tasks.
func (w *world) supervisors() []int {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	w.must(err)
	var pids []int
	for _, path := range entries {
		b, err := os.ReadFile(path)
		var pid int
		if _, scan := fmt.Sscanf(path, "/proc/%d/environ", &pid); err == nil && scan == nil && strings.Contains(string(b), w.marker) {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		w.Fatal("no process of the victims runs")
	}
	return pids
}

// victimMain returns the victim's client: it hands in work and prints what it is
// called, or, if the marker is "work", sees one task through.
func victimMain(in io.Reader, out io.Writer) int {
	b, err := readBriefing(in)
	if err == nil && b.Marker == "work" {
		err = work(b, out)
	} else if err == nil {
		err = handIn(b, out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func work(b briefing, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := wireconnect.NewTaskServiceClient(wire.NewHTTPClient(b.Socket), wire.BaseURL)
	res, err := client.Run(ctx, &wire.RunRequest{Argv: []string{"/bin/true"}, Cpus: 0.01, Priority: 8})
	if err != nil {
		return err
	}
	stream, err := client.Watch(ctx, &wire.WatchRequest{Id: res.Id})
	if err != nil {
		return err
	}
	defer stream.Close()
	state := ""
	for stream.Receive() {
		for _, t := range stream.Msg().Tasks {
			state = t.State
		}
	}
	fmt.Fprintln(out, state)
	return stream.Err()
}

func handIn(b briefing, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	http := wire.NewHTTPClient(b.Socket)
	tasks := wireconnect.NewTaskServiceClient(http, wire.BaseURL)
	closed := filepath.Join(b.Home, "closed.csv")
	for _, q := range []*wire.RunRequest{
		{Argv: []string{"/bin/sh", "-c", "echo " + b.Marker + "; exec sleep 100000"}},
		{Argv: []string{"/bin/sh", "-c", "true " + b.Marker}, Held: true},
		{Argv: []string{"/bin/echo", b.Marker}},
		{Argv: []string{"/bin/sh", "-c", "read x; exec sleep 100000"}, Input: &wire.Input{Paths: []string{closed}, Split: wire.Split_SPLIT_LINES}},
	} {
		q.Name, q.Job, q.Cwd, q.Cpus, q.Priority = b.Marker, "job"+b.Marker, b.Home, 0.01, 8
		q.Env = []string{"SECRET=" + b.Marker, "PATH=" + os.Getenv("PATH")}
		res, err := tasks.Run(ctx, q)
		if err != nil {
			return err
		}
		b.Tasks = append(b.Tasks, res.Id)
		want := "running"
		switch {
		case q.Held:
			want = "pending"
		case q.Argv[0] == "/bin/echo":
			want = "done"
		}
		if err := reaches(ctx, tasks, res.Id, want); err != nil {
			return err
		}
	}
	warm, err := wireconnect.NewDataServiceClient(http, wire.BaseURL).Warm(ctx, &wire.WarmRequest{Paths: []string{filepath.Join(b.Home, "secret.txt")}})
	if err != nil {
		return err
	}
	b.Warms = append(b.Warms, warm.Id)
	for _, id := range b.Tasks {
		if t, err := tasks.Get(ctx, &wire.GetRequest{Id: id}); err == nil && t.Input.GetStream() != "" {
			b.Streams = append(b.Streams, t.Input.Stream)
		}
	}
	return json.NewEncoder(out).Encode(map[string]any{"Tasks": b.Tasks, "Warms": b.Warms, "Streams": b.Streams})
}

func reaches(ctx context.Context, tasks wireconnect.TaskServiceClient, id, state string) error {
	for {
		t, err := tasks.Get(ctx, &wire.GetRequest{Id: id})
		if err != nil {
			return err
		}
		if t.State == state && t.Doing == "" {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// look returns the state of everything that must not change, by name.
func (w *world) look() map[string]string {
	w.Helper()
	state := map[string]string{}
	for _, plant := range w.plants {
		w.must(filepath.WalkDir(plant, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				state[path] = err.Error()
				return nil
			}
			state[path] = w.stateOf(path)
			return nil
		}))
	}
	for _, id := range w.brief.Tasks {
		t, err := w.client.Get(w.ctx(), &wire.GetRequest{Id: id})
		if err != nil {
			state["task "+id] = err.Error()
			continue
		}
		state["task "+id] = fmt.Sprintf("%s %s held=%v %d events, since %d, priority %d, code %d", t.State, t.Doing, t.Held, len(t.History), t.SinceMs, t.Priority, t.ExitCode)
		if in := t.Input; in.GetStream() != "" {
			state["stream "+in.Stream] = fmt.Sprint(in.Dealt, in.DealtHere, in.Units, in.Of)
		}
	}
	list, err := wireconnect.NewDataServiceClient(wire.NewHTTPClient(w.brief.Socket), wire.BaseURL).ListWarm(w.ctx(), &wire.ListWarmRequest{})
	w.must(err)
	for _, r := range list.Requests {
		for _, id := range w.brief.Warms {
			if r.Id == id {
				state["warm "+id] = fmt.Sprint(r.Paths, r.Files, r.Bytes, r.User)
			}
		}
	}
	for _, pid := range w.brief.PIDs {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			state[fmt.Sprint("pid ", pid)] = err.Error()
			continue
		}
		state[fmt.Sprint("pid ", pid)] = "there"
	}
	return state
}

// stateOf returns what of a file must stay: all but when it was read.
func (w *world) stateOf(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	st := info.Sys().(*syscall.Stat_t)
	sum := ""
	if info.Mode().IsRegular() {
		b, err := os.ReadFile(path)
		w.must(err)
		sum = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return fmt.Sprintf("%v %d:%d %d links, %d bytes, %v, %s", info.Mode(), st.Uid, st.Gid, st.Nlink, info.Size(), info.ModTime().UnixNano(), sum)
}

func (w *world) compare(before, after map[string]string) {
	w.Helper()
	if len(before) < 20 {
		w.Errorf("only %d things of others were looked at", len(before))
	}
	for what, was := range before {
		if now := after[what]; now != was {
			w.Errorf("%s has changed:\n  was %s\n  is  %s", what, was, now)
		}
	}
	for what := range after {
		if _, ok := before[what]; !ok {
			w.Errorf("%s is new", what)
		}
	}
}
