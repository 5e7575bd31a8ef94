package proc_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"headrace/internal/testkit"
	"headrace/proc"
)

func TestRunsAsTheUser(t *testing.T) {
	w := newWorld(t)
	if os.Geteuid() != 0 {
		t.Skip("changing the user needs root")
	}
	secret := filepath.Join(t.TempDir(), "secret")
	w.must(os.WriteFile(secret, []byte("secret"), 0o600))
	s := w.spec("t", "/bin/sh", "-c", `id -u; id -g; id -G; echo 0.5 > $HEADRACE_PROGRESS_FILE; echo more >> /dev/stdout; cat `+secret)
	s.UID, s.GID, s.Groups = 12345, 12346, []uint32{12346, 12347}
	e := w.end(w.start(s))
	if got, want := w.log("t", "stdout"), "12345\n12346\n12346 12347\nmore\n"; got != want || e.Code != 1 {
		t.Errorf("printed %q (%+v), want %q and code 1: the file is root's", got, e, want)
	}
	s = w.spec("out", "true")
	s.UID, s.GID, s.Output = 12345, 12346, filepath.Join(filepath.Dir(secret), "created-by-root")
	if e := w.end(w.start(s)); e.Code != 126 {
		t.Errorf("an output file in a directory of root's: %+v", e)
	}
}

// The shim itself, which has the daemon's rights until it becomes the user, does not
// obey the environment of the task: neither Go's settings nor the dynamic linker's.
func TestShimIgnoresTheEnvironmentOfTheTask(t *testing.T) {
	w := newWorld(t)
	s := w.spec("t", "printenv", "GODEBUG", "HEADRACE_CRASH", "LD_PRELOAD", proc.TaskIDEnv)
	s.Env = append(s.Env, "GODEBUG=inittrace=1,multipathtcp=0", "HEADRACE_CRASH=exec", "LD_PRELOAD=", proc.TaskIDEnv+"=other")
	e := w.end(w.start(s))
	if got, want := w.log("t", "stdout"), "inittrace=1,multipathtcp=0\nexec\n\nt\n"; got != want || e.Code != 0 {
		t.Errorf("the command has %q (%+v), want %q", got, e, want)
	}
	if said := w.log("t", "stderr"); said != "" {
		t.Errorf("Go's settings of the task reached the shim, which said:\n%s", said)
	}
}

// Without root there are no namespaces; what is possible still works.
func TestAsOrdinaryUser(t *testing.T) {
	testkit.AsOrdinaryUser(t, "TestSuspendResume", "run=Exit|CannotStart|Files|Suspend|Kill|Daemons|Usage|Progress|Attach|Resume|Refused|Spec")
}

func TestSpecIsOwnerOnly(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "/bin/true"))
	w.end(task)
	for _, f := range []string{"spec.json", "exit.json", "stdout", "stderr", "shim.sock", "shim.log"} {
		st, err := os.Stat(filepath.Join(w.rt.TaskDir("t"), f))
		w.must(err)
		if st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", f, st.Mode())
		}
	}
	var s proc.Spec
	w.must(json.Unmarshal([]byte(w.log("t", "spec.json")), &s))
}
