package yarn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"headrace/internal/jars"
)

// sharedClasses is a file with the classes of jars as virtual machines map them (JEP 310), which takes a third of the
// processor time of a start. It need not be there.
type sharedClasses struct {
	java, file string
	path       []string // the jars, with which the class path of whoever uses it begins
}

// hadoopClasses are those of Hadoop's daemons and clients, and of MapReduce's containers.
func (j *Jars) hadoopClasses() sharedClasses {
	return sharedClasses{j.Java, jars.Archive(j.Lib), []string{filepath.Join(j.Lib, "*"), filepath.Join(j.HDFS, "*")}}
}

// sparkClasses are those of Spark's drivers and executors.
func (j *Jars) sparkClasses() sharedClasses {
	return sharedClasses{j.Java, jars.Archive(j.Spark), []string{filepath.Join(j.Spark, "*")}}
}

// flags have a virtual machine use them. Where there is no such file, or one of other jars, nothing is said and none is
// used.
func (s sharedClasses) flags() []string {
	if _, err := os.Stat(s.file); err != nil {
		return nil // with a name of none it would not have Java's own either
	}
	return []string{"-XX:SharedArchiveFile=" + s.file, "-Xshare:auto", "-Xlog:disable", "-Xlog:all=warning:stderr", "-Xlog:cds=off"}
}

// jvm returns a command that does something with a file of them, with the flags on which its maker and its users agree.
func (s sharedClasses) jvm(ctx context.Context, file string, args ...string) *exec.Cmd {
	flags := append(slices.Clone(smallJVM), "-XX:SharedArchiveFile="+file, "-cp", strings.Join(s.path, ":"))
	return exec.CommandContext(ctx, s.java, append(flags, args...)...)
}

// made returns nil if the file is there, made by this Java of these jars.
func (s sharedClasses) made(ctx context.Context) error {
	if out, err := s.jvm(ctx, s.file, "-Xshare:on", "-version").CombinedOutput(); err != nil {
		return fmt.Errorf("there is no archive of the classes in %s: %w: %s", s.path, err, out)
	}
	return nil
}

// make makes the file, unless it is there, of the classes of a list, which list writes into a file.
func (s sharedClasses) make(ctx context.Context, list func(context.Context) (string, error)) error {
	if s.made(ctx) == nil {
		return nil
	}
	names, err := list(ctx)
	if err != nil {
		return err
	}
	// Others may be starting: they find all of it or nothing.
	made := fmt.Sprint(s.file, ".", os.Getpid())
	defer os.Remove(made)
	if out, err := s.jvm(ctx, made, "-Xshare:dump", "-XX:SharedClassListFile="+names).CombinedOutput(); err != nil {
		return fmt.Errorf("archive the classes in %s: %w: %s", s.path, err, out[max(0, len(out)-tailBytes):])
	}
	return os.Rename(made, s.file)
}

// Archived returns nil if Hadoop's classes are archived.
func (j *Jars) Archived(ctx context.Context) error { return j.hadoopClasses().made(ctx) }

// Archive makes archives of classes, unless they are there: of what Hadoop's daemons and clients load when
// one process is all of them, and of what a MapReduce job's containers load; and of what Spark loads, where there is one.
// Clusters that start afterwards use them. dir is for everything
// temporary; empty: os.TempDir. The archives are beside copies of the jars that outlive the checkout (package jars).
func (j *Jars) Archive(ctx context.Context, dir string) error {
	spark := j.FindSpark() == nil
	j.use(func(dirs ...string) []string {
		if kept, err := jars.Keep(dirs...); err == nil {
			return kept
		}
		return dirs // where no copy can be made the archive is beside them
	})
	if j.Archived(ctx) == nil && (!spark || j.sparkClasses().made(ctx) == nil) {
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
	lists := filepath.Join(c.Dir, "classes")
	err = errors.Join(os.Mkdir(lists, 0o755), c.giveToUser(lists))
	if err == nil {
		err = j.hadoopClasses().make(ctx, func(ctx context.Context) (string, error) { return c.listClasses(ctx, lists) })
	}
	if err == nil && spark {
		err = j.sparkClasses().make(ctx, func(ctx context.Context) (string, error) { return c.listSparkClasses(ctx, lists) })
	}
	return errors.Join(err, c.Abandon())
}

// listClasses returns a file in a directory that lists Hadoop's classes.
func (c *Cluster) listClasses(ctx context.Context, lists string) (string, error) {
	if err := errors.Join(c.prepare(ctx), makeWebApps(c.confDir())); err != nil {
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

// listSparkClasses returns a file in a directory that lists Spark's: of a driver that is its own executor.
func (c *Cluster) listSparkClasses(ctx context.Context, lists string) (string, error) {
	input, list := filepath.Join(lists, "lines"), filepath.Join(lists, "spark")
	if err := os.WriteFile(input, []byte("a line\n"), 0o644); err != nil {
		return "", err
	}
	cmd := c.java(512, lineCounts, []string{filepath.Join(c.o.Jars.Spark, "*"), c.o.Jars.SparkApp}, []string{"-XX:DumpLoadedClassList=" + list})
	cmd.Env = append(cmd.Env, "JDK_JAVA_OPTIONS="+sparkOpens)
	var orders bytes.Buffer
	for _, o := range []lineOrder{
		{Name: "open", What: "open", Properties: map[string]string{"spark.master": "local[1]", "spark.app.name": "classes", "spark.ui.enabled": "false",
			"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}},
		{Name: "count", What: "count", Inputs: []string{"file://" + input}},
		{Name: "sum", What: "sum", Inputs: []string{"file://" + input}},
		{Name: "close", What: "close"},
	} {
		if err := json.NewEncoder(&orders).Encode(o); err != nil {
			return "", err
		}
	}
	cmd.Stdin = &orders
	run, err := c.clients.start("spark", cmd)
	if err == nil {
		err = run.Succeed(ctx)
	}
	if err == nil && strings.Contains(run.Output(), `"broken"`) {
		err = run.client.problem()
	}
	return list, err
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
