package yarn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"headrace/internal/jars"
)

// HadoopEnv names the variable with the directory that holds Hadoop's jars, as
// java/cluster gathers them; empty: java/cluster/target/hadoop of the source tree.
const HadoopEnv = "HEADRACE_HADOOP"

// Jars says where the programs of a cluster are.
type Jars struct {
	// Java is the java command.
	Java string
	// Lib has the daemons and the clients, Shell DistributedShell with what only it
	// needs, Examples those of MapReduce, Services the framework of YARN services. All
	// absolute.
	Lib, Shell, Examples, Services string
	// HDFS has those of NameNode and DataNode beyond Lib.
	HDFS string
	// Native has Hadoop's native library; empty: there is none for this kind of processor.
	Native string
	// Cluster is the jar with our own application master.
	Cluster string
	// Plugin is the jar of Headrace for YARN; it need not be there.
	Plugin string
	// Spark has the jars of a Spark that runs on YARN, SparkApp our programs for it; they need
	// not be there (FindSpark).
	Spark, SparkApp string

	modules string
}

// Module returns the jar of one of Headrace's modules for others, as mapreduce; it need not be
// there.
func (j *Jars) Module(name string) string {
	return filepath.Join(j.modules, name, "target", "headrace-"+name+".jar")
}

// Find looks for Java and the jars. The error says what to do.
func Find() (*Jars, error) {
	java, err := findJava()
	if err != nil {
		return nil, err
	}
	hadoop, modules, err := findHadoop()
	if err != nil {
		return nil, err
	}
	j := &Jars{
		Java:     java,
		Lib:      filepath.Join(hadoop, "lib"),
		Shell:    filepath.Join(hadoop, "distributedshell"),
		Examples: filepath.Join(hadoop, "examples"),
		Services: filepath.Join(hadoop, "services"),
		HDFS:     filepath.Join(hadoop, "hdfs"),
		Cluster:  filepath.Join(modules, "cluster", "target", "headrace-cluster.jar"),
		Plugin:   filepath.Join(modules, "yarn", "target", "headrace-yarn.jar"),
		Spark:    filepath.Join(modules, "sparkyarn", "target", "spark"),
		SparkApp: filepath.Join(modules, "sparkyarn", "target", "headrace-sparkyarn.jar"),
		modules:  modules,
	}
	for _, path := range []string{j.Lib, j.Shell, j.Examples, j.Cluster} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("the jars of YARN are not there (%s): run make java", path)
		}
	}
	j.use(jars.Kept)
	// As Java calls them, which has named the directories.
	arch := map[string]string{"arm64": "aarch64"}
	native := filepath.Join(hadoop, "nativelib", "Linux-"+orDefault(arch[runtime.GOARCH], runtime.GOARCH))
	if _, err := os.Stat(filepath.Join(native, "libhadoop.so")); err == nil {
		j.Native = native
	}
	return j, nil
}

// use has it use the directories of those jars whose classes are archived as a function returns them.
func (j *Jars) use(of func(dirs ...string) []string) {
	hadoop := of(j.Lib, j.HDFS)
	j.Lib, j.HDFS, j.Spark = hadoop[0], hadoop[1], of(j.Spark)[0]
}

func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java := filepath.Join(home, "bin", "java")
		if _, err := os.Stat(java); err == nil {
			return java, nil
		}
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", errors.New("there is no java on PATH and none in JAVA_HOME: run make setup, or install a JDK of version 17 or newer")
	}
	return java, nil
}

// findHadoop returns the directory with Hadoop's jars and the one with the Java
// modules.
func findHadoop() (hadoop, modules string, err error) {
	if hadoop = os.Getenv(HadoopEnv); hadoop != "" {
		if hadoop, err = filepath.Abs(hadoop); err != nil {
			return "", "", err
		}
		// java/cluster/target/hadoop
		return hadoop, filepath.Join(hadoop, "..", "..", ".."), nil
	}
	root, err := sourceTree()
	if err != nil {
		return "", "", err
	}
	modules = filepath.Join(root, "java")
	return filepath.Join(modules, "cluster", "target", "hadoop"), modules, nil
}

// sourceTree returns the nearest directory with a go.mod: above the working directory,
// else above the program.
func sourceTree() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, dir := range starts {
		for ; ; dir = filepath.Dir(dir) {
			_, err := os.Stat(filepath.Join(dir, "java", "cluster", "pom.xml"))
			if err == nil {
				return dir, nil
			}
			if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("the jars of YARN are not there: run make java in Headrace's source tree and call this from there, or name java/cluster/target/hadoop in %s", HadoopEnv)
}
