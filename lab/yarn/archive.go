package yarn

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ClassArchives has the virtual machines of MapReduce's jobs map the classes that an earlier
// one has loaded (JEP 350), which takes less than half of the processor time of a start.
type ClassArchives struct{ c *config }

// ClassArchives returns those of the cluster, which are there when a job with the properties of
// Make has ended.
func (c *clients) ClassArchives() (ClassArchives, error) {
	return ClassArchives{c.config}, c.writeConfJar()
}

// Make returns the properties of a job that makes them: of a master and of a task.
func (a ClassArchives) Make() map[string]string { return a.properties("-XX:ArchiveClassesAtExit=") }

// Use returns the properties of a job that uses them.
func (a ClassArchives) Use() map[string]string { return a.properties("-XX:SharedArchiveFile=") }

func (a ClassArchives) properties(flag string) map[string]string {
	jvm := func(name string) string {
		return fmt.Sprintf("-Xmx256m %s %s%s -cp %s", strings.Join(a.c.jvmFlags(), " "), flag, filepath.Join(a.c.Dir, name+".jsa"), a.classPath())
	}
	return map[string]string{"yarn.app.mapreduce.am.command-opts": jvm("master"), "mapreduce.map.java.opts": jvm("task"), "mapreduce.reduce.java.opts": jvm("task")}
}

// classPath is that of containers without directories of their own: an archive is of a class
// path, in which directories must be empty.
func (a ClassArchives) classPath() string {
	return strings.Join([]string{a.c.confJar(), a.c.o.Jars.Cluster, filepath.Join(a.c.o.Jars.Lib, "*"), filepath.Join(a.c.o.Jars.Examples, "*")}, ":")
}

func (c *config) confJar() string { return filepath.Join(c.Dir, "conf.jar") }

// writeConfJar puts the configuration into a jar.
func (c *config) writeConfJar() error {
	f, err := os.Create(c.confJar())
	if err != nil {
		return err
	}
	defer f.Close()
	z := zip.NewWriter(f)
	files, err := filepath.Glob(filepath.Join(c.confDir(), "*.*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		w, err := z.Create(filepath.Base(file))
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return z.Close()
}
