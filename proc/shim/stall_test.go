package shim

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

func TestStall(t *testing.T) {
	const limit = 60 * time.Second
	still := func(p progress) progress { return p }
	for _, c := range []struct {
		name string
		next func(progress) progress
		most time.Duration // the time after which it must be ended; 0: never
	}{
		{"nothing moves", still, limit},
		{"bytes", func(p progress) progress { p.bytes++; return p }, 0},
		{"fewer bytes, for one has ended", func(p progress) progress { p.bytes--; return p }, 0},
		{"processes come and go", func(p progress) progress { p.who++; return p }, 0},
		{"only computes", func(p progress) progress { p.cpu += 10 * time.Millisecond; return p }, slowFactor * limit},
		{"waits for a device", func(p progress) progress { p.waits = true; return p }, slowFactor * limit},
	} {
		st := stall{limit: limit}
		var p progress
		ended := time.Duration(0)
		for at := time.Second; at <= 2*slowFactor*limit && ended == 0; at += time.Second {
			if p = c.next(p); st.add(p, time.Second, 2*time.Second) {
				ended = at
			}
		}
		if ended != c.most {
			t.Errorf("%s: ended after %v, want %v", c.name, ended, c.most)
		}
	}
	st := stall{limit: limit}
	if st.add(progress{}, time.Hour, 2*time.Second) {
		t.Error("an hour in which the machine slept has counted")
	}
	for range 25 {
		st.add(progress{}, 2*time.Second, 2*time.Second)
	}
	st.add(progress{bytes: 1}, 2*time.Second, 2*time.Second)
	if st.add(progress{bytes: 1}, 2*time.Second, 2*time.Second) {
		t.Error("progress does not begin the time anew")
	}
}

// What is seen of real processes changes when they do something and does not when they
// do nothing.
func TestProgressOf(t *testing.T) {
	look := func(cmd *exec.Cmd) progress {
		st, err := linux.ProcFS("").Stat(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return progressOf([]linux.Stat{st})
	}
	cmd := exec.Command("cat")
	w, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Start(t, cmd)
	stable := func() progress {
		for last := look(cmd); ; {
			time.Sleep(20 * time.Millisecond)
			now := look(cmd)
			if now == last {
				return now
			}
			last = now
		}
	}
	before := stable()
	if _, err := io.WriteString(w, "x"); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "a sign of the byte that was read", func() bool { return look(cmd).bytes != before.bytes })
}
