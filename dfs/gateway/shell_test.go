package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"headrace/hdfs/hdfstest"
	"headrace/internal/freeport"
	"headrace/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.M{M: m}.Run()) }

// server is a running headrace dfs start.
type server struct {
	t       testing.TB
	program string
	args    []string
	cmd     *exec.Cmd
	ended   <-chan struct{}
	fs      string
}

func startServer(t testing.TB, dir string, port int, flags ...string) *server {
	s := &server{t: t, program: testkit.Headrace(t), args: append([]string{"dfs", "start", "--dir", dir, "--port", fmt.Sprint(port), "--data-port", "0", "--http-port", "0"}, flags...)}
	s.start()
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.ended = testkit.Start(s.t, s.cmd)
	s.t.Cleanup(func() { s.end(syscall.SIGTERM) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("headrace dfs start: %v", err)
	}
	s.fs = strings.TrimSpace(line)
}

// end signals the server, and waits for its end.
func (s *server) end(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Signal(sig)
	<-s.ended
	if sig == syscall.SIGTERM && s.cmd.ProcessState.ExitCode() != 0 {
		s.t.Errorf("headrace dfs start ends with %v", s.cmd.ProcessState)
	}
	s.cmd = nil
}

// shell is Hadoop's client.
type shell struct {
	*hdfstest.Shell
	t testing.TB
}

// hadoopJars returns the directory of Hadoop's jars, or skips the test.
func hadoopJars(t testing.TB) (java, lib string) {
	t.Helper()
	if testing.Short() {
		t.Skip("Java is not started in short tests")
	}
	jars, _ := filepath.Glob("../../java/cluster/target/hadoop/lib/hadoop-hdfs-client-[0-9]*.jar")
	java, err := exec.LookPath("java")
	if len(jars) == 0 || err != nil {
		t.Skip("there is no Hadoop to try; make java gathers it:", err)
	}
	return java, filepath.Dir(jars[0])
}

func startShell(t testing.TB, conf string) *shell {
	t.Helper()
	return &shell{hdfstest.StartShell(t, conf), t}
}

// ask has a user run hdfs dfs, and returns what it said and its exit code.
func (s *shell) ask(user string, words ...string) (out, code string) {
	s.t.Helper()
	s.Tell(user + " " + strings.Join(words, " "))
	return s.Answer()
}

// run is ask by who may do all, for what must succeed.
func (s *shell) run(words ...string) string {
	s.t.Helper()
	return s.Run(superuser(s.t), words...)
}

// says runs hdfs dfs, and looks for something in what it says.
func (s *shell) says(want string, words ...string) {
	s.t.Helper()
	if out := s.run(words...); !strings.Contains(out, want) {
		s.t.Errorf("%v: want %q in\n%s", words, want, out)
	}
}

// refuses has a user run what must be refused.
func (s *shell) refuses(want, user string, words ...string) {
	s.t.Helper()
	if out, code := s.ask(user, words...); code == "0" || !strings.Contains(out, want) {
		s.t.Errorf("%s %v: exit code %s, want %q in\n%s", user, words, code, want, out)
	}
}

func superuser(t testing.TB) string {
	out, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func md5Of(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%d bytes %x", len(b), md5.Sum(b))
}

// clientConfig has headrace dfs client-config write a configuration with small blocks.
func clientConfig(t testing.TB, s *server) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command(s.program, "dfs", "client-config", "--fs", s.fs, dir).Output()
	if err != nil || strings.TrimSpace(string(out)) != dir {
		t.Fatalf("client-config: %q, %v", out, err)
	}
	file := filepath.Join(dir, "hdfs-site.xml")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte("</configuration>"), []byte("<property><name>dfs.blocksize</name><value>1048576</value></property></configuration>"), 1)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func bytesOf(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// TestHadoopsShell: hdfs dfs, unchanged, does what it does with an HDFS.
func TestHadoopsShell(t *testing.T) {
	hadoopJars(t)
	s := startServer(t, filepath.Join(t.TempDir(), "dfs"), 0)
	sh := startShell(t, clientConfig(t, s))
	dir := t.TempDir()
	file := write(t, dir, "data", bytesOf(2_500_000)) // of three blocks

	sh.run("-mkdir", "-p", "/a/b")
	sh.run("-put", file, "/a/data")
	sh.says("2500000", "-ls", "/a")
	sh.run("-get", "/a/data", file+".got")
	if got, want := md5Of(t, file+".got"), md5Of(t, file); got != want {
		t.Errorf("-get: %s, want %s", got, want)
	}
	sh.run("-appendToFile", file, "/a/data")
	sh.run("-get", "/a/data", file+".twice")
	twice := write(t, dir, "want", append(bytesOf(2_500_000), bytesOf(2_500_000)...))
	if got, want := md5Of(t, file+".twice"), md5Of(t, twice); got != want {
		t.Errorf("-get after -appendToFile: %s, want %s", got, want)
	}
	small := write(t, dir, "small", []byte("some words\n"))
	sh.run("-put", small, "/a/small")
	sh.says("some words\n", "-cat", "/a/small")
	sh.run("-mv", "/a/small", "/a/b/moved")
	sh.says("some words\n", "-cat", "/a/b/moved")
	sh.run("-chmod", "640", "/a/b/moved")
	sh.run("-chown", "alice:staff", "/a/b/moved")
	sh.run("-setrep", "3", "/a/b/moved")
	sh.says("alice:staff:640:3:11:regular file", "-stat", "%u:%g:%a:%r:%b:%F", "/a/b/moved")
	sh.run("-put", twice, "/a/again")
	one, two := sh.run("-checksum", "/a/data"), sh.run("-checksum", "/a/again")
	if sum := strings.Fields(one); len(sum) < 3 || sum[1] != "MD5-of-2048MD5-of-512CRC32C" || !strings.Contains(two, sum[2]) {
		t.Errorf("-checksum of the same bytes: %s, %s", one, two)
	}
	sh.says("10000011  10000033  /a", "-du", "-s", "/a")
	sh.says("2            3           10000011 /a", "-count", "/a")
	sh.run("-setfacl", "-m", "user:bob:r--,default:user:bob:r-x", "/a/b")
	sh.says("default:user:bob:r-x", "-getfacl", "/a/b")
	sh.run("-setfattr", "-n", "user.colour", "-v", "blue", "/a/b/moved")
	sh.says(`user.colour="blue"`, "-getfattr", "-d", "/a/b/moved")
	sh.run("-touchz", "/a/empty")
	sh.run("-test", "-z", "/a/empty")
	sh.says("Filesystem", "-df", "/")
	sh.says("/a/b/moved", "-find", "/a", "-name", "moved")
	sh.says("Live datanodes (1)", "admin", "-report")
	sh.says("Safe mode is OFF", "admin", "-safemode", "get")

	sh.refuses("Permission denied: user=bob", "bob", "-mkdir", "/bob")
	sh.refuses("Permission denied: user=bob", "bob", "-cat", "/a/b/moved")
	sh.refuses("No such file or directory", "bob", "-ls", "/nowhere")
	sh.refuses("Access denied for user bob", "bob", "admin", "-safemode", "enter")
	if out, code := sh.ask("alice", "-cat", "/a/b/moved"); code != "0" || !strings.Contains(out, "some words") {
		t.Errorf("alice reads her file: %s %s", code, out)
	}
	sh.cacheAdmin()
	sh.run("-rm", "-r", "/a")
	sh.refuses("No such file or directory", "bob", "-ls", "/a")
}

// cacheAdmin has hdfs cacheadmin keep a file of 5 MB in memory, one of two.
func (s *shell) cacheAdmin() {
	s.t.Helper()
	s.says("Successfully added cache pool p.", "cacheadmin", "-addPool", "p", "-owner", "alice", "-group", "staff", "-mode", "750", "-limit", "9000000", "-maxTtl", "7d")
	s.refuses("Cache pool p already exists.", superuser(s.t), "cacheadmin", "-addPool", "p", "-group", "staff")
	s.refuses("Superuser privilege is required", "alice", "cacheadmin", "-removePool", "p")
	s.refuses("Permission denied while accessing pool p: user bob does not have WRITE permissions.", "bob", "cacheadmin", "-addDirective", "-path", "/a/again", "-pool", "p")
	if out, code := s.ask("alice", "cacheadmin", "-addDirective", "-path", "/a/again", "-pool", "p", "-ttl", "1d"); code != "0" || !strings.Contains(out, "Added cache directive 1") {
		s.t.Errorf("-addDirective: %s %s", code, out)
	}
	s.refuses("would exceed pool p's remaining capacity of 4000000 bytes.", "alice", "cacheadmin", "-addDirective", "-path", "/a/data", "-pool", "p")
	out := ""
	testkit.Await(s.t, "the file to be in memory", func() bool {
		out = s.run("cacheadmin", "-listDirectives", "-stats")
		return strings.Contains(strings.Join(strings.Fields(out), " "), "/a/again 5000000 5000000 1 1")
	}, &out)
	s.says("Found 0 entries", "cacheadmin", "-listDirectives", "-path", "/a/data")
	out = s.run("cacheadmin", "-listPools", "-stats")
	if want := "p alice staff rwxr-x--- 9000000 007:00:00:00.000 1 5000000 5000000 0 1 1"; !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		s.t.Errorf("-listPools: want %q in\n%s", want, out)
	}
	s.says("Modified cache directive 1", "cacheadmin", "-modifyDirective", "-id", "1", "-path", "/a/data", "-force")
	s.says("/a/data", "cacheadmin", "-listDirectives", "-id", "1")
	s.says("Successfully modified cache pool p", "cacheadmin", "-modifyPool", "p", "-mode", "700")
	s.says("Removed cached directive 1", "cacheadmin", "-removeDirective", "1")
	s.says("Successfully removed cache pool p.", "cacheadmin", "-removePool", "p")
	s.says("Found 0 results.", "cacheadmin", "-listPools")
}

// TestWriterOfAKilledNode: a client writes, and the node is killed and started again between two parts: what was flushed is
// there, the writer hears of it, and the file can be closed and appended to by others.
func TestWriterOfAKilledNode(t *testing.T) {
	hadoopJars(t)
	l, err := freeport.Listen("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := startServer(t, filepath.Join(t.TempDir(), "dfs"), l.Addr().(*net.TCPAddr).Port)
	sh := startShell(t, clientConfig(t, s))
	dir := t.TempDir()
	before := write(t, dir, "before", bytesOf(1_500_000))
	sh.run("-put", before, "/before")

	sh.Tell(superuser(t) + " write /parts")
	var said string
	parts := 0
	for parts = range 4 {
		if _, said = sh.Part(); said != fmt.Sprint((parts+1)*300_001) {
			break
		}
		if parts == 1 {
			s.end(syscall.SIGKILL)
			s.start()
		}
		sh.Tell("")
	}
	if parts != 2 || !strings.HasPrefix(said, "failed: ") {
		t.Errorf("after the node was killed, part %d says %q", parts, said)
	} else if out, code := sh.Answer(); code != "1" {
		t.Errorf("exit code %s\n%s", code, out)
	}
	t.Logf("the writer hears: %s", said)
	sh.run("recover", "/parts")
	sh.run("-appendToFile", before, "/parts")
	sh.run("-get", "/parts", before+".parts")
	sh.run("-get", "/before", before+".got")
	if got, want := md5Of(t, before+".got"), md5Of(t, before); got != want {
		t.Errorf("what was closed before: %s, want %s", got, want)
	}
	got, err := os.ReadFile(before + ".parts")
	want := slices.Concat(bytes.Repeat([]byte("a"), 300_001), bytes.Repeat([]byte("b"), 300_001), bytesOf(1_500_000))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes and not the %d that were flushed and appended, %v", len(got), len(want), err)
	}
}
