package hdfstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"headrace/internal/freeport"
	"headrace/internal/jars"
)

// User is HDFS's superuser.
const User = "headrace"

// ErrMissing is the error where there is nothing to run HDFS with.
var ErrMissing = errors.New("HDFS cannot be started")

// HDFS is a running one.
type HDFS struct {
	// Host is HOST:PORT of the name node, by HTTP.
	Host string
	// RPC is HOST:PORT of the name node for Hadoop's own clients.
	RPC   string
	java  string
	flags []string // of the virtual machine
	dir   string
	node  *node                              // name node and data node
	ready func(context.Context, *HDFS) error // writes a file
}

// Site returns its hdfs-site.xml. There, ${hadoop.tmp.dir} is a directory
// that ends with the HDFS.
func (h *HDFS) Site() string { return filepath.Join(h.dir, "hdfs-site.xml") }

// URL returns that of the name node.
func (h *HDFS) URL() string { return "http://" + h.Host }

// Start returns when files can be written. hadoop is where java/cluster gathers jars:
// lib has those of all daemons, hdfs that of name node and data node, which are one process. What was started
// ends with Stop, or with this process, however that ends. Properties, names and values
// by turns, are added to those of name node and data node.
func Start(hadoop string, properties ...string) (*HDFS, error) {
	return start(hadoop, nil, write, properties)
}

func start(hadoop string, flags []string, ready func(context.Context, *HDFS) error, properties []string) (*HDFS, error) {
	j, err := find(hadoop)
	if err != nil {
		return nil, err
	}
	h := &HDFS{java: j.java, ready: ready}
	if h.dir, err = os.MkdirTemp("", "headrace-hdfs-"); err != nil {
		return nil, err
	}
	// One of the jars, which are first, has settings for the log.
	h.flags = slices.Concat(flags, j.archiveFlags(), []string{"-Dlog4j.configuration=file:" + filepath.Join(h.dir, "log4j.properties"), "-cp", j.path + ":" + h.dir})
	if err := h.start(properties); err != nil {
		h.Stop()
		return nil, fmt.Errorf("start HDFS: %w", err)
	}
	return h, nil
}

// hadoopJars are what it takes to run Hadoop.
type hadoopJars struct {
	java    string // the program
	path    string // the class path of Hadoop, and of java/cluster
	archive string // of the classes of Hadoop; it need not be there
}

// find looks for them. hadoop is a directory in which java/cluster gathers jars.
func find(hadoop string) (*hadoopJars, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("%w: there is no java", ErrMissing)
	}
	dir, err := filepath.Abs(hadoop)
	if err != nil {
		return nil, err
	}
	in := jars.Kept(filepath.Join(dir, "lib"), filepath.Join(dir, "hdfs")) // as package yarn has them, which makes the archive
	if found, _ := filepath.Glob(filepath.Join(in[1], "hadoop-hdfs-[0-9]*.jar")); len(found) == 0 {
		return nil, fmt.Errorf("%w: there is no hadoop-hdfs in %s; make java gathers it", ErrMissing, dir)
	}
	return &hadoopJars{java, strings.Join([]string{filepath.Join(in[0], "*"), filepath.Join(in[1], "*"), filepath.Join(dir, "..", "headrace-cluster.jar")}, ":"),
		jars.Archive(in[0])}, nil
}

func (h *HDFS) start(properties []string) error {
	rpc, web, err := twoAddresses()
	if err != nil {
		return err
	}
	h.Host, h.RPC = web, rpc
	if err := configure(h.dir, rpc, web, properties); err != nil {
		return err
	}
	n, err := startNode(h.command(), filepath.Join(h.dir, "log"))
	if err != nil {
		return err
	}
	h.node = n
	return h.await()
}

func last(b []byte) []byte { return b[max(0, len(b)-3000):] }

func twoAddresses() (a, b string, err error) {
	l1, err := freeport.Listen("127.0.0.1")
	if err != nil {
		return "", "", err
	}
	defer l1.Close()
	l2, err := freeport.Listen("127.0.0.1")
	if err != nil {
		return "", "", err
	}
	defer l2.Close()
	return l1.Addr().String(), l2.Addr().String(), nil
}

func configure(dir, rpc, web string, more []string) error {
	property := func(kv ...string) string {
		var b strings.Builder
		b.WriteString("<configuration>\n")
		for i := 0; i < len(kv); i += 2 {
			fmt.Fprintf(&b, "<property><name>%s</name><value>%s</value></property>\n", kv[i], kv[i+1])
		}
		return b.String() + "</configuration>\n"
	}
	var errs []error
	for _, web := range []string{"hdfs", "datanode", "static"} { // the jar has no pages; without these directories nothing starts
		errs = append(errs, os.MkdirAll(filepath.Join(dir, "webapps", web), 0o700))
	}
	write := func(name, text string) {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("core-site.xml", property("fs.defaultFS", "hdfs://"+rpc, "hadoop.tmp.dir", dir+"/tmp", "hadoop.http.staticuser.user", User))
	write("hdfs-site.xml", property(append([]string{
		"dfs.namenode.name.dir", "file://" + dir + "/name", "dfs.datanode.data.dir", "file://" + dir + "/data",
		"dfs.namenode.rpc-address", rpc, "dfs.namenode.http-address", web,
		"dfs.datanode.address", "127.0.0.1:0", "dfs.datanode.http.address", "127.0.0.1:0", "dfs.datanode.ipc.address", "127.0.0.1:0",
		"dfs.datanode.hostname", "127.0.0.1", "dfs.replication", "1", "dfs.namenode.safemode.extension", "0",
		"dfs.permissions.superusergroup", "supergroup"}, more...)...))
	write("log4j.properties", "log4j.rootLogger=WARN,c\nlog4j.appender.c=org.apache.log4j.ConsoleAppender\nlog4j.appender.c.layout=org.apache.log4j.SimpleLayout\n")
	return errors.Join(errs...)
}

func (h *HDFS) command() *exec.Cmd {
	cmd := exec.Command(h.java, slices.Concat([]string{"-Xmx256m"}, small, h.flags, []string{"headrace.cluster.NewHdfs", "data"})...)
	// HDFS's superuser is whoever starts it.
	cmd.Env = append(os.Environ(), "HADOOP_USER_NAME="+User)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// A node is a process.
type node struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed when it is gone
}

func startNode(cmd *exec.Cmd, logFile string) (*node, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	n := &node{cmd, logFile, make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig is about the thread that has started it
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(n.ended)
		}
	}()
	return n, <-started
}

// startTime is how long HDFS may take to come up.
const startTime = 6 * time.Minute

// await waits until files can be written.
func (h *HDFS) await() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTime, fmt.Errorf("not ready after %v", startTime))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := h.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-h.node.ended:
			err = errors.New("it has ended")
		case <-ctx.Done():
			err = errors.Join(context.Cause(ctx), err)
		}
		log, _ := os.ReadFile(h.node.log)
		return fmt.Errorf("%w\n%s", err, last(log))
	}
}

func (h *HDFS) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return h.ready(ctx, h)
}

func write(ctx context.Context, h *HDFS) error {
	url := h.URL() + "/webhdfs/v1/probe?op=CREATE&overwrite=true&user.name=" + User
	q, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader("x"))
	if err != nil {
		return err
	}
	q.Close = true
	res, err := http.DefaultClient.Do(q) // is sent on to the data node
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return fmt.Errorf("write a file: %s", res.Status)
	}
	return nil
}

// Writing returns how many blocks of files are being written now.
func (h *HDFS) Writing() (int, error) {
	blocks, err := filepath.Glob(filepath.Join(h.dir, "data", "current", "BP-*", "current", "rbw", "blk_*"))
	n := 0
	for _, b := range blocks {
		if filepath.Ext(b) != ".meta" {
			n++
		}
	}
	return n, err
}

// Stop ends it and removes all of its files.
func (h *HDFS) Stop() error {
	if h.node != nil {
		h.node.cmd.Process.Kill()
		<-h.node.ended
	}
	return os.RemoveAll(h.dir)
}
