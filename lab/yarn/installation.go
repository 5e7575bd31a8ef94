package yarn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"headrace/internal/freeport"
	"headrace/lab/belong"
)

// dirPrefix begins the name of a cluster's directory.
const dirPrefix = "headrace-yarn-"

// An installation is what all processes of a cluster share: programs, a directory, a
// network, a user, an environment.
type installation struct {
	// Dir has everything that the cluster writes. Logs of daemons and clients are in
	// Dir/log.
	Dir string

	o        Options
	lock     *os.File        // nil when the directory is kept
	network  string          // the first three bytes of its addresses
	head     *namespace      // of what there is one of; nil: this process's
	given    map[string]bool // addresses that freePorts has found, whose servers may not have begun yet
	javaHome string
	user     *syscall.Credential // of the option User; nil: that of this process
}

func newInstallation(o Options) (*installation, error) {
	user, err := credential(o.User)
	if err != nil {
		return nil, err
	}
	java, err := filepath.EvalSymlinks(o.Jars.Java)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := removeStale(o.Dir); err != nil {
		return nil, fmt.Errorf("remove what a killed process has left: %w", err)
	}
	dir, err := os.MkdirTemp(o.Dir, dirPrefix)
	if err != nil {
		return nil, err
	}
	s := &installation{Dir: dir, o: o, user: user, javaHome: filepath.Dir(filepath.Dir(java)), given: map[string]bool{},
		network: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250))}
	if o.HDFS != nil {
		s.network = testNetwork
	}
	if !o.Keep {
		if s.lock, err = lockDir(dir, os.O_CREATE); err != nil {
			return nil, err
		}
	}
	// Containers may belong to others.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	for _, sub := range []string{"log", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	return s, errors.Join(s.giveToUser(dir), s.giveToUser(filepath.Join(dir, "tmp")))
}

// freePorts finds a port in the namespace for each of the properties. They are free when it returns, it has found none
// of them before, nobody else uses the address, and the kernel gives them to nobody. One goroutine at a time may call it.
func (s *installation) freePorts(n *namespace, host, prefix string, names ...string) (properties, error) {
	p := properties{}
	err := n.do(func() error {
		for len(p) < len(names) {
			l, err := freeport.Listen(host)
			if err != nil {
				return fmt.Errorf("find a free port: %w", err)
			}
			defer l.Close()
			if address := l.Addr().String(); !s.given[address] {
				s.given[address], p[prefix+names[len(p)]] = true, address
			}
		}
		return nil
	})
	return p, err
}

func (s *installation) rmHost() string  { return s.network + "1" }
func (s *installation) homeDir() string { return filepath.Join(s.Dir, "machine") } // where each machine sees its own directory
func (s *installation) confDir() string { return filepath.Join(s.Dir, "conf") }

func (s *installation) logFile(name string) string {
	return filepath.Join(s.Dir, "log", name+".log")
}

// Logs returns the ends of all logs, for a person who has to find out what went wrong.
func (s *installation) Logs() string {
	var b strings.Builder
	files, _ := filepath.Glob(s.logFile("*"))
	for _, f := range files {
		fmt.Fprintf(&b, "---- %s\n%s\n", filepath.Base(f), tailOf(f))
	}
	return b.String()
}

// giveToUser has YARN's user own a file or directory.
func (s *installation) giveToUser(path string) error {
	if s.user == nil {
		return nil
	}
	return os.Chown(path, int(s.user.Uid), int(s.user.Gid))
}

// smallJVM makes a JVM start quickly and stay small, and keeps it from leaving files
// in /tmp. What comes from Maven's repository needs no second verification: that is an
// eighth of the processor time of a start. All garbage is not collected as soon as classes take 21 MB, which is
// about a tenth. Archived classes are mapped where the archive wants them, so that no page of it is written.
var smallJVM = []string{"-XX:+UseSerialGC", quickCompiler, "-XX:-UsePerfData", "-XX:MetaspaceSize=128m",
	"-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote", "-XX:ArchiveRelocationMode=0",
	"--add-opens=java.base/java.lang=ALL-UNNAMED"}

const quickCompiler = "-XX:TieredStopAtLevel=1"

// jvmFlags are those of every JVM of the cluster. Where there is HDFS, they have Hadoop's
// native library, as installations do.
func (s *installation) jvmFlags() []string {
	flags := slices.Clone(smallJVM)
	if s.o.Compiled {
		flags = slices.DeleteFunc(flags, func(f string) bool { return f == quickCompiler })
	}
	if s.o.HDFS != nil && s.o.Jars.Native != "" {
		flags = append(flags, "-Djava.library.path="+s.o.Jars.Native)
	}
	return flags
}

// java returns a command that runs a class with the given class path and flags beside those of
// all, as YARN's user.
func (s *installation) java(heap int, class string, path, flags []string, args ...string) *exec.Cmd {
	all := slices.Concat([]string{fmt.Sprintf("-Xmx%dm", heap)}, s.jvmFlags(), flags, []string{"-Dhadoop.log.dir=" + s.Dir,
		"-Djava.io.tmpdir=" + filepath.Join(s.Dir, "tmp"), "-cp", strings.Join(path, ":"), class}, args)
	cmd := s.command(s.o.Jars.Java, all)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user}
	return cmd
}

// javaOfHadoop returns a command that runs a class of Hadoop, or one of ours that uses it, with a
// directory of configuration and what else is in the class path. The jars are before the
// configuration, else there could be no archive of their classes (Archive), and one of them has
// settings of log4j.
func (s *installation) javaOfHadoop(heap int, class, conf string, also []string, args ...string) *exec.Cmd {
	return s.javaWith(heap, class, conf, append(s.o.Jars.hadoopClasses().path, also...), args...)
}

// javaWith does as javaOfHadoop; path has the jars of Hadoop too. If something must be before
// them, the archive is not used.
func (s *installation) javaWith(heap int, class, conf string, path []string, args ...string) *exec.Cmd {
	return s.java(heap, class, append(path, conf), append(s.o.Jars.hadoopClasses().flags(), logAs(conf)), args...)
}

// logAs is the flag for those whose class path has something else before the configuration.
func logAs(conf string) string {
	return "-Dlog4j.configuration=file:" + filepath.Join(conf, "log4j.properties")
}

// daemonHeap is that of each of Hadoop's daemons, in MB.
const daemonHeap = 192

// compiledHeap is that of daemons of HDFS, and of their clients, with the option Compiled.
const compiledHeap = 768

// daemon returns a command that runs one of YARN's daemons, with the plug-ins if they are
// asked for.
func (s *installation) daemon(class, conf string) *exec.Cmd {
	var plugin []string
	if s.o.Mode == Headrace {
		plugin = []string{s.o.Jars.Plugin}
	}
	return s.javaOfHadoop(daemonHeap, class, conf, plugin)
}

// startOnHead starts a process of which there is one in the cluster, or a client.
func (s *installation) startOnHead(name, logFile string, cmd *exec.Cmd) (p *process, err error) {
	err = s.head.do(func() error {
		p, err = startProcess(name, logFile, cmd)
		return err
	})
	return p, err
}

// command returns one of a process of the cluster.
func (s *installation) command(name string, args []string) *exec.Cmd {
	all := slices.Concat(s.o.Wrap, []string{name}, args)
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Dir = s.Dir
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Env = append(cmd.Env, "JAVA_HOME="+s.javaHome, belong.Marker+"="+s.Dir)
	return cmd
}
