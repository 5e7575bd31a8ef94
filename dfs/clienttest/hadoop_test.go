package clienttest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headrace/dfs/dfstest"
	"headrace/hdfs/hdfstest"
	"headrace/internal/freeport"
	"headrace/internal/testkit"
)

// hadoopShell returns a command that is Hadoop's client, configured in the directory conf. It skips the test where that cannot be started.
func hadoopShell(t *testing.T, conf string) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("Java is not started in short tests")
	}
	cmd, err := hdfstest.ShellCommand("../../java/cluster/target/hadoop", conf)
	if err != nil {
		t.Skip(err)
	}
	return cmd
}

// TestHadoop: Hadoop's client of WebHDFS does what that of HDFS does, and computes the checksum that this node tells.
func TestHadoop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := hadoopShell(t, filepath.Join(dir, "conf"))
	hdfs, web := dfstest.Start(t)
	web = "webhdfs" + strings.TrimPrefix(web, "http")
	run(t, dir, testkit.Headrace(t), "dfs", "client-config", "--fs", hdfs, "conf")
	data := make([]byte, 2<<20+1000)
	rand.NewChaCha8([32]byte{7}).Read(data)
	file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	// Commands, and what they are to say.
	commands := [][2]string{
		{"-mkdir -p " + web + "/d/e", ""},
		{"-D dfs.blocksize=1048576 -put " + file + " " + web + "/d/f", ""},
		{"-appendToFile " + file + " " + web + "/d/f", ""},
		{"-get " + web + "/d/f " + other, ""},
		{"-checksum " + web + "/d/f", `MD5-of-2048MD5-of-512CRC32C\t00000200\w{48}\n`},
		{"-checksum " + hdfs + "/d/f", `MD5-of-2048MD5-of-512CRC32C\t00000200\w{48}\n`},
		{"-touchz " + web + "/d/empty", ""},
		{"-checksum " + web + "/d/empty", `70bc8f4b72a86921468bf8e8441dce51`},
		{"-ls -R " + web + "/", `(?s)/d/e\n.*4196304.*/d/f\n`},
		{"-chmod 640 " + web + "/d/f", ""},
		{"-stat %a:%b:%o:%r " + web + "/d/f", `640:4196304:1048576:1`},
		{"-setfacl -m user:alice:r-x " + web + "/d/f", ""},
		{"-getfacl " + web + "/d/f", `user:alice:r-x`},
		{"-setfattr -n user.colour -v red " + web + "/d/f", ""},
		{"-getfattr -d " + web + "/d/f", `user.colour="red"`},
		{"-mv " + web + "/d/f " + web + "/d/e/g", ""},
		{"-count " + web + "/d", `2 +2 +4196304`},
		{"-tail " + web + "/d/e/g", ""},
		{"-df " + web + "/", `Available`},
		{"-setrep 2 " + web + "/d/e/g", ""},
		{"-test -e " + web + "/d/e/g", ""},
		{"-cp " + web + "/d/e/g " + hdfs + "/copy", ""},
		{"-rm -r -skipTrash " + web + "/d", `Deleted`},
	}
	var in strings.Builder
	for _, c := range commands {
		in.WriteString(me(t) + " " + c[0] + "\n")
	}
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := regexp.MustCompile(`(?m)> (\d+)$\n`).Split(string(out), -1)[1:] // the first says that it is ready
	if len(answers) != len(commands)+1 {
		t.Fatalf("%d answers to %d commands\n%s", len(answers)-1, len(commands), out)
	}
	codes := regexp.MustCompile(`(?m)> (\d+)$`).FindAllStringSubmatch(string(out), -1)[1:]
	for i, c := range commands {
		if codes[i][1] != "0" || !regexp.MustCompile(c[1]).MatchString(answers[i]) {
			t.Errorf("%s: exit code %s, want %q in\n%s", c[0], codes[i][1], c[1], answers[i])
		}
	}
	sum := regexp.MustCompile(`00000200\w{48}`)
	if a, b := sum.FindString(answers[4]), sum.FindString(answers[5]); a != b {
		t.Errorf("the checksum is %s here and %s to a client of HDFS", a, b)
	}
	if got, err := os.ReadFile(other); err != nil || !bytes.Equal(got, append(data, data...)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestStartedAgain: a client that client-config has configured for one node asks again when the node ends in the middle of a call.
func TestStartedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := hadoopShell(t, filepath.Join(dir, "conf"))
	l, err := freeport.Listen("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	run(t, dir, testkit.Headrace(t), "dfs", "client-config", "--offline", "--fs", "hdfs://"+address, "conf")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(me(t)+" -mkdir /made\n"), &out, &out
	ended := testkit.Start(t, cmd)
	called, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody is there
	called.Close()
	_, port, _ := net.SplitHostPort(address)
	dfstest.Launch(t, filepath.Join(dir, "dfs"), "--port", port, "--http-port", "0")
	<-ended
	if codes := regexp.MustCompile(`(?m)> (\d+)$`).FindAllStringSubmatch(out.String(), -1); len(codes) != 2 || codes[1][1] != "0" {
		t.Errorf("it was not made:\n%s", &out)
	}
}
