package yarn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// archive is the file with the classes of Hadoop's jars as virtual machines map them (JEP 310),
// which takes a third of the processor time of a start. It need not be there.
func (j *Jars) archive() string { return filepath.Join(filepath.Dir(j.Lib), "classes.jsa") }

// archived is the class path of the archive, with which that of whoever uses it begins.
func (j *Jars) archived() []string {
	return []string{filepath.Join(j.Lib, "*"), filepath.Join(j.HDFS, "*")}
}

// archiveFlags have a virtual machine use the archive. Where there is none, or one of other jars,
// nothing is said and none is used.
func (j *Jars) archiveFlags() []string {
	return []string{"-XX:SharedArchiveFile=" + j.archive(), "-Xshare:auto", "-Xlog:disable", "-Xlog:all=warning:stderr", "-Xlog:cds=off"}
}

// jvm returns a command that does something with the archive in file, with the flags on which
// its maker and its users agree.
func (j *Jars) jvm(ctx context.Context, file string, args ...string) *exec.Cmd {
	flags := append(slices.Clone(smallJVM), "-XX:SharedArchiveFile="+file, "-cp", strings.Join(j.archived(), ":"))
	return exec.CommandContext(ctx, j.Java, append(flags, args...)...)
}

// Archived returns nil if there is an archive, made by this Java of these jars.
func (j *Jars) Archived(ctx context.Context) error {
	if out, err := j.jvm(ctx, j.archive(), "-Xshare:on", "-version").CombinedOutput(); err != nil {
		return fmt.Errorf("there is no archive of Hadoop's classes: %w: %s", err, out)
	}
	return nil
}

// Archive makes the archive, unless it is there: of what Hadoop's daemons and clients load when
// one process is all of them, and of what a MapReduce job's containers load. Clusters that start
// afterwards use it. dir is for everything
// temporary; empty: os.TempDir.
func (j *Jars) Archive(ctx context.Context, dir string) error {
	if j.Archived(ctx) == nil {
		return nil
	}
	o := Options{Jars: j, Dir: dir}
	if err := o.complete(); err != nil {
		return err
	}
	in, err := newInstallation(o)
	if err != nil {
		return err
	}
	c := newCluster(in)
	list, err := c.listClasses(ctx)
	if err == nil {
		err = j.dump(ctx, list)
	}
	return errors.Join(err, c.Abandon())
}

// listClasses returns a file that lists the classes.
func (c *Cluster) listClasses(ctx context.Context) (string, error) {
	if err := errors.Join(c.prepare(ctx), makeWebApps(c.confDir())); err != nil {
		return "", err
	}
	lists := filepath.Join(c.Dir, "classes")
	err := os.Mkdir(lists, 0o755)
	if err == nil {
		err = c.giveToUser(lists)
	}
	if err != nil {
		return "", err
	}
	path := []string{c.o.Jars.Cluster, c.machines[0].path("conf")}
	cmd := c.javaOfHadoop(512, "headrace.cluster.Classes", c.confDir(), path, lists)
	cmd.Env = append(cmd.Env, "JDK_JAVA_OPTIONS=-XX:DumpLoadedClassList="+filepath.Join(lists, "daemons"))
	run, err := c.clients.start("classes", cmd)
	if err == nil {
		err = run.Succeed(ctx)
	}
	if err != nil {
		return "", err
	}
	return join(lists, "daemons", "master", "map", "reduce")
}

// join returns a file of what the files of these names in a directory have.
func join(dir string, names ...string) (string, error) {
	var all []byte
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		all = append(all, b...)
	}
	joined := filepath.Join(dir, "all")
	return joined, os.WriteFile(joined, all, 0o644)
}

// dump makes the archive of the classes of a list.
func (j *Jars) dump(ctx context.Context, list string) error {
	// Others may be starting: they find all of it or nothing.
	made := fmt.Sprint(j.archive(), ".", os.Getpid())
	defer os.Remove(made)
	if out, err := j.jvm(ctx, made, "-Xshare:dump", "-XX:SharedClassListFile="+list).CombinedOutput(); err != nil {
		return fmt.Errorf("archive Hadoop's classes: %w: %s", err, out[max(0, len(out)-tailBytes):])
	}
	return os.Rename(made, j.archive())
}
