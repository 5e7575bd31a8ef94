package attach

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"id":"c1","argv":["/bin/bash","-c","x"],"env":["A=b"],"cwd":"/","umask":18,"pid_var":"JVM_PID",` +
		`"limits":[{"resource":7,"soft":1024,"hard":4096}],"stdout":{"pipe":true},"stderr":{"path":"/x"}}`))
	f.Add([]byte(`{"id":"..","argv":[""]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := parseRequest(b)
		if err != nil {
			return
		}
		if q.ID == "" || strings.ContainsAny(q.ID, "/\x00") || q.ID == "." || q.ID == ".." || len(q.Argv) == 0 || q.Cwd[0] != '/' {
			t.Errorf("%q was taken for %+v", b, q)
		}
		again, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		q2, err := parseRequest(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if b, err := json.Marshal(q2); err != nil || !bytes.Equal(b, again) {
			t.Errorf("%s became %s (%v)", again, b, err)
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte("{\"ready\":true}\n{\"go\":true}\n{\"signal\":15}\n{\"exit\":0}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := NewMessages(bytes.NewReader(b))
		for range len(b) + 1 {
			if _, err := in.Next(); err != nil {
				return
			}
		}
		t.Errorf("%d bytes have more messages", len(b))
	})
}

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	code := 3
	for _, m := range []Message{{Ready: true}, {Go: true}, {Signal: syscall.SIGTERM}, {Exit: &code, Error: strings.Repeat("\x01", 10000)}} {
		if err := Send(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	in := NewMessages(&b)
	for i := range 4 {
		m, err := in.Next()
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if i == 3 && (*m.Exit != 3 || len(m.Error) < 100) {
			t.Errorf("%+v", m)
		}
	}
	for _, bad := range []string{"x\n", "{}", strings.Repeat(" ", maxMessage+1) + "\n"} {
		if _, err := NewMessages(strings.NewReader(bad)).Next(); err == nil {
			t.Errorf("%.10q was taken", bad)
		}
	}
}

// What the kernel prints of the limits of a process is what it answers when asked.
func TestParseLimits(t *testing.T) {
	b, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseLimits(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		var want unix.Rlimit
		if err := unix.Prlimit(0, l.Resource, nil, &want); err != nil || want.Cur != l.Soft || want.Max != l.Hard {
			t.Errorf("%+v, want %+v (%v)", l, want, err)
		}
	}
	if _, err := parseLimits(b[:len(b)/2]); err == nil {
		t.Error("half of it was enough")
	}
}

func TestInheritedFiles(t *testing.T) {
	out, err := exec.Command("/bin/sh", "-c", "ulimit -S -n").Output()
	if err != nil {
		t.Fatal(err)
	}
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		t.Fatal(err)
	}
	t.Logf("this program has %d, its children %s", now.Cur, out)
	for _, l := range Limits() {
		if l.Resource == unix.RLIMIT_NOFILE && l.Soft != inheritedFiles(0) {
			t.Errorf("%+v", l)
		}
	}
}

func TestReadNice(t *testing.T) {
	path := t.TempDir() + "/stat"
	line := "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 20 -7 1 0 5 6"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := readNice(path); err != nil || n != -7 {
		t.Errorf("%d, %v", n, err)
	}
}
