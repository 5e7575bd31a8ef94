package yarn

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"headrace/blob"
	"headrace/hdfs/hdfstest"
	"headrace/internal/testkit"
	"headrace/migrate"
)

// Daemons are killed while a container goes from one machine to another. And the
// archive is in HDFS.
func elsewhereSurvival(t *testing.T, j *jobs) {
	c, dir := j.c, archiveDir(t)
	c.o.ManagerFlags = append(c.o.ManagerFlags, "--network", "10GB")
	startWithArchive(t, c, dir)
	for _, try := range []struct {
		victims string
		move    func(*move, *testing.T) error
		long    bool // the tests of migrate end nodes at these points, and SurvivalTest in Java a ResourceManager
	}{
		{"nodes", (*move).killNodes, true},
		{"manager and NodeManager", (*move).killManagerAndNM, false},
		{"ResourceManager", (*move).killRM, true},
	} {
		ok := t.Run(try.victims, func(t *testing.T) {
			if try.long {
				testkit.Long(t)
			}
			m := &move{depart(t, j, filepath.Base(t.Name()), largeShell{distributedShell{c}}), dir}
			if err := try.move(m, t); err != nil {
				t.Fatal(err)
			}
			m.goesOn(t, must(blob.Dir(dir))(t))
		})
		if !ok {
			return // a daemon may be missing
		}
	}
	if err := c.StopDaemons(); err != nil {
		t.Fatal(err)
	}
	t.Run("HDFS", func(t *testing.T) {
		testkit.Long(t)
		hdfs := startHDFS(t, c)
		archive := "webhdfs://" + hdfstest.User + "@" + hdfs.Host + "/apps/headrace"
		startWithArchive(t, c, archive)
		open := must(blob.Find(archive))(t)
		place := must(open(t.Context()))(t)
		d := depart(t, j, "hdfs", distributedShell{c})
		d.leaves.kill(t)
		d.goesOn(t, place)
		must(0, c.StopDaemons())(t)
	})
}

func startWithArchive(t *testing.T, c *Cluster, place string) {
	t.Helper()
	if err := c.StartDaemons(within(t, patience), "checkpoint", func(int) []string { return []string{"--archive", place} }); err != nil {
		t.Fatal(err)
	}
}

func startHDFS(t *testing.T, c *Cluster, properties ...string) *hdfstest.HDFS {
	t.Helper()
	hdfs, err := hdfstest.Start(filepath.Join(filepath.Dir(c.o.Jars.Cluster), "hadoop"), properties...)
	if errors.Is(err, hdfstest.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hdfs.Stop(); err != nil {
			t.Error(err)
		}
	})
	return hdfs
}

// largeShell is distributedShell with a container that takes long enough to be moved.
type largeShell struct{ distributedShell }

func (l largeShell) start(t *testing.T, name string, steps Steps) string {
	const holding = "python3 -c 'import os, subprocess, sys; held = os.urandom(48 << 20); sys.exit(subprocess.call(sys.argv[1:]))' "
	run := must(l.c.DistributedShell(ShellJob{Name: name, Queue: "low", Memory: almostAll, Command: holding + steps.Command()}))(t)
	return must(run.ID(within(t, patience)))(t)
}

// A move is one of a container whose machine is full to the other, through an archive
// that is a directory.
type move struct {
	*departure
	dir string
}

// killNodes kills the daemon of the first machine before it does anything, again when
// all data are in the archive, and that of the other when it has claimed them.
func (m *move) killNodes(t *testing.T) error {
	if err := errors.Join(m.doom(t, m.from, "solo.op.before"), m.doom(t, m.to, "archive.claimed")); err != nil {
		return err
	}
	m.interrupted = true
	m.leaves.kill(t)
	return errors.Join(m.afterDeath(t, m.from, "archive.before-manifest"), m.afterDeath(t, m.from, ""), m.afterDeath(t, m.to, ""))
}

// doom has the daemon of a machine die at a crash point.
func (m *move) doom(t *testing.T, i int, point string) error {
	m.c.machines[i].dies = point
	return errors.Join(m.c.KillNode(i), m.c.StartNode(within(t, patience), i))
}

// afterDeath starts the daemon again when it has died, to die at another point perhaps.
func (m *move) afterDeath(t *testing.T, i int, next string) error {
	n := m.c.machines[i]
	err := await(within(t, patience), "wait for the death at "+n.dies, patience, func(context.Context) (bool, error) {
		return n.agent.gone(), nil
	})
	n.dies = next
	return errors.Join(err, m.c.StartNode(within(t, patience), i))
}

// killManagerAndNM kills the manager while the container is being archived, and the
// NodeManager of the other machine while it is being fetched.
func (m *move) killManagerAndNM(t *testing.T) error {
	m.leaves.kill(t)
	if _, err := awaitEntry(within(t, patience), m.dir, migrate.Uploading); err != nil {
		return err
	}
	if err := errors.Join(m.c.KillManager(), m.c.StartManager(within(t, patience))); err != nil {
		return err
	}
	if _, err := awaitEntry(within(t, patience), m.dir, migrate.Claimed); err != nil {
		return err
	}
	return errors.Join(m.c.KillNM(m.to), m.c.StartNM(within(t, patience), m.to))
}

// killRM kills the ResourceManager when it has given the container up, and again when
// the NodeManager has ended it and the application master has perhaps not heard of that.
func (m *move) killRM(t *testing.T) error {
	before := logSize(m.c.logFile("rm"))
	restart := func() error { return errors.Join(m.c.KillRM(), m.c.StartRM(within(t, patience))) }
	m.leaves.kill(t)
	err := await(within(t, patience), "wait for the release", patience, func(context.Context) (bool, error) {
		return logHas(m.c.logFile("rm"), before, m.container+" is given up here"), nil
	})
	if err := errors.Join(err, restart()); err != nil {
		return err
	}
	err = await(within(t, patience), "wait for the end of the container", patience, func(ctx context.Context) (bool, error) {
		task, err := m.c.TaskOf(ctx, m.from, m.container)
		return err == nil && task.EndedMs != 0, err
	})
	return errors.Join(err, restart())
}
