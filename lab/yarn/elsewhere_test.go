package yarn

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/blob"
	"headrace/internal/criu"
	"headrace/internal/testkit"
	"headrace/migrate"
	"headrace/wire"
)

// needCRIU skips the test where nothing can be checkpointed.
func needCRIU(t *testing.T) {
	t.Helper()
	if _, err := criu.Find(); err != nil {
		t.Skip(err)
	}
}

// elsewhereSoon has containers of DistributedShell, and of services, go on on another machine where daemons have an archive.
var elsewhereSoon = map[string]string{"headrace.elsewhere.application-types": "YARN,yarn-service", "headrace.elsewhere.after-ms": "1000"}

// archiveDir returns an archive that is a directory.
func archiveDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "archive")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Containers of DistributedShell leave their machine, which stays full, and go on on
// another, whatever dies meanwhile.
func elsewhere(t *testing.T, j *jobs) {
	needCRIU(t)
	c, dir := j.c, archiveDir(t)
	c.o.ManagerFlags = []string{"--min-run", "0s"}
	startWithArchive(t, c, dir)
	t.Run("goes on", func(t *testing.T) {
		testkit.Long(t) // an instance of a service does below, and a container whose daemons are killed
		goesOnElsewhere(t, depart(t, j, "moves", distributedShell{c}), dir)
	})
	t.Run("damaged", func(t *testing.T) { startsAfresh(t, depart(t, j, "damaged", distributedShell{c}), dir) })
	must(0, c.StopDaemons())(t)
	t.Run("survival", func(t *testing.T) { elsewhereSurvival(t, j) })
	c.o.ManagerFlags = nil
}

// A framework runs applications with one container, which asks again for it.
type framework interface {
	// start returns the name of an application that has been submitted.
	start(t *testing.T, name string, steps Steps) string
	// succeed waits for the application's end.
	succeed(t *testing.T, application string)
}

type distributedShell struct{ c *Cluster }

func (d distributedShell) start(t *testing.T, name string, steps Steps) string {
	run := must(d.c.DistributedShell(ShellJob{Name: name, Queue: "low", Memory: almostAll, Command: steps.Command()}))(t)
	return must(run.ID(within(t, patience)))(t)
}

func (d distributedShell) succeed(t *testing.T, application string) {
	var app App
	err := await(within(t, patience), "wait for the end of "+application, patience, func(ctx context.Context) (ended bool, err error) {
		app, err = d.c.App(ctx, application)
		return app.Ended(), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if app.FinalStatus != "SUCCEEDED" {
		t.Errorf("the application: %+v", app)
	}
}

// almostAll is the memory of a container that has a machine for itself, or shares it
// with an application master, in MB.
const almostAll = 1536

// A departure is a container that was checkpointed on a machine that has no room for
// it any more.
type departure struct {
	framework
	c                      *Cluster
	steps                  Steps
	application, container string
	from, to               int
	// stays is the urgent job in its place, leaves the one on the other machine.
	stays, leaves *job
	// interrupted: the daemon died in an upload. That was offered to nobody; what is left of it a Sweep removes in an hour.
	interrupted bool
}

// depart returns when the container has given way and both machines are full.
func depart(t *testing.T, j *jobs, name string, f framework) *departure {
	t.Helper()
	d := &departure{framework: f, c: j.c, steps: must(j.c.NewSteps(name, 60, 100*time.Millisecond))(t)}
	hold(t, d.steps, 20)
	d.application = d.start(t, name, d.steps)
	t.Cleanup(func() {
		// What a failed test leaves would be in the way of others.
		if t.Failed() {
			d.c.KillApp(context.Background(), d.application)
		}
	})
	awaitSteps(t, d.steps, 20)
	var urgent []*job
	for i := range 2 {
		urgent = append(urgent, j.start(t, ShellJob{Name: fmt.Sprint(name, "-urgent", i), Queue: "high", Memory: almostAll}, 6000))
	}
	d.container = awaitState(t, j.c, "checkpointed", 1, urgent...)[0]
	goOn(t, d.steps)
	d.from = nodeOf(t, j.c, d.container)
	d.to = 1 - d.from
	for _, u := range urgent {
		u.awaitSteps(t, 1)
		if at := must(u.steps.Attempts())(t)["0"][0].Container; nodeOf(t, j.c, at) == d.from {
			d.stays = u
		} else {
			d.leaves = u
		}
	}
	if d.stays == nil || d.leaves == nil {
		t.Fatal("the urgent jobs are not on one machine each")
	}
	return d
}

// arrival returns the task on the other machine when it runs, or has even done so
// already.
func (d *departure) arrival(t *testing.T) *wire.Task {
	t.Helper()
	var found *wire.Task
	err := await(within(t, patience), "wait for a container of "+d.application+" on the other machine", patience, func(ctx context.Context) (bool, error) {
		app, gone := d.c.App(ctx, d.application)
		tasks, err := d.c.Tasks(ctx, d.to)
		for _, task := range tasks {
			if task.Hosting.GetApplication() == d.application && task.Doing == "" && (task.State == "running" || task.State == "done") {
				found = task
			}
		}
		if found == nil && gone == nil && err == nil && app.Ended() {
			return false, &fatal{fmt.Errorf("it has ended: %+v", app)}
		}
		return found != nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// show returns what headrace show says of a task on a machine.
func (c *Cluster) show(t *testing.T, i int, id string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), c.o.Binary, "--state-dir", c.machines[i].stateDir(), "show", id).CombinedOutput()
	if err != nil {
		t.Fatalf("headrace show: %v\n%s", err, out)
	}
	return string(out)
}

// over ends the urgent job that has stayed, and fails unless nothing is left.
func (d *departure) over(t *testing.T) {
	t.Helper()
	if app := must(d.c.App(t.Context(), d.application))(t); app.PreemptedMasters != 0 {
		t.Errorf("the application: %+v", app)
	}
	d.stays.kill(t)
	idle(t, d.c)
}

func goesOnElsewhere(t *testing.T, d *departure, dir string) {
	d.leaves.kill(t)
	d.goesOn(t, must(blob.Dir(dir))(t))
}

// goesOn waits for the end, and fails unless all work was done by the container and
// what it became on the other machine, and nothing of it is left.
func (d *departure) goesOn(t *testing.T, place blob.Place) {
	t.Helper()
	task := d.arrival(t)
	if task.Id == d.container {
		t.Errorf("the container on the other machine has the name of the first, %s", task.Id)
	}
	want := "goes on where it was on " + d.container + " on " + d.c.Host(d.from)
	if said := d.c.show(t, d.to, task.Id); !strings.Contains(said, want) {
		t.Errorf("headrace show does not say %q:\n%s", want, said)
	}
	d.succeed(t, d.application)
	attempts := must(d.steps.Attempts())(t)
	if len(attempts) != 1 {
		t.Errorf("%d tasks have done anything, want 1", len(attempts))
	}
	for _, all := range attempts {
		if len(all) != 1 || all[0].Container != d.container || len(all[0].Done) != d.steps.Count {
			t.Errorf("the work was done by %d containers, in the first %d steps of %d; want by %s and what it became",
				len(all), len(all[0].Done), d.steps.Count, d.container)
		}
	}
	var said strings.Builder
	for step := range d.steps.Count {
		fmt.Fprintln(&said, step+1)
	}
	for _, name := range []string{"stdout*", "journal"} { // that of a service is stdout.txt
		logs, _ := filepath.Glob(filepath.Join(d.c.machines[d.to].path("logs"), d.application, task.Id, name))
		if len(logs) != 1 {
			t.Errorf("the logs %s of the container on the other machine: %q", name, logs)
			continue
		}
		if b, err := os.ReadFile(logs[0]); err != nil || string(b) != said.String() {
			t.Errorf("the log of the container on the other machine: %q, %v", b, err)
		}
	}
	d.over(t)
	for _, state := range []migrate.State{migrate.Uploading, migrate.Ready, migrate.Claimed, migrate.Used, "removed"} {
		left := must(place.List(t.Context(), string(state)))(t)
		if d.interrupted && state == migrate.Uploading {
			left = slices.DeleteFunc(left, func(e blob.Object) bool {
				dir := path.Join(string(state), e.Name)
				inside := must(place.List(t.Context(), dir))(t)
				if slices.ContainsFunc(inside, func(f blob.Object) bool { return f.Name == "manifest" }) {
					return false
				}
				if err := place.Remove(t.Context(), dir); err != nil {
					t.Error(err)
				}
				return true
			})
		}
		if len(left) > 0 {
			t.Errorf("in the archive is left, %s: %v", state, left)
		}
	}
}

func startsAfresh(t *testing.T, d *departure, dir string) {
	damaged := make(chan error, 1)
	go func() { damaged <- damage(within(t, patience), dir) }()
	d.leaves.kill(t)
	if err := <-damaged; err != nil {
		t.Fatal(err)
	}
	task := d.arrival(t)
	const want = "starts from the beginning, because a checkpoint of it could not be restored"
	if said := d.c.show(t, d.to, task.Id); !strings.Contains(said, want) {
		t.Errorf("headrace show does not say %q:\n%s", want, said)
	}
	d.succeed(t, d.application)
	complete := 0
	for _, all := range must(d.steps.Attempts())(t) {
		for _, a := range all {
			if len(a.Done) == d.steps.Count {
				complete++
			}
		}
	}
	if complete != 1 {
		t.Errorf("%d containers have done all steps, want 1", complete)
	}
	d.over(t)
}

// damage changes a byte of all data of the first entry that is ready in an archive.
func damage(ctx context.Context, dir string) error {
	entry, err := awaitEntry(ctx, dir, migrate.Ready)
	if err != nil {
		return err
	}
	return damageEntry(entry)
}

// awaitEntry returns an entry in a state when an archive has one: sooner than a
// container can be started, or fetched.
func awaitEntry(ctx context.Context, dir string, state migrate.State) (string, error) {
	const each = 2 * time.Millisecond
	for {
		entries, err := filepath.Glob(filepath.Join(dir, string(state), "*"))
		if err != nil {
			return "", err
		}
		if len(entries) > 0 {
			return entries[0], nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for something in %s of the archive: %w", state, context.Cause(ctx))
		case <-time.After(each):
		}
	}
}

func damageEntry(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	changed := 0
	for _, file := range files {
		if filepath.Base(file) == "manifest" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil || len(data) == 0 {
			return fmt.Errorf("%s: %d bytes, %w", file, len(data), err)
		}
		bad := bytes.Clone(data)
		bad[len(bad)/2] ^= 1
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			return err
		}
		changed++
	}
	if changed == 0 {
		return fmt.Errorf("there are no data in %s: %v", dir, files)
	}
	return nil
}
