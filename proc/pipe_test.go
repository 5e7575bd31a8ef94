package proc_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// Whoever is at the other end of a task's pipes does not notice a checkpoint:
// what is written meanwhile arrives later, and nothing comes twice.
func TestPipes(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	inR, inW, err := os.Pipe()
	w.must(err)
	outR, outW, err := os.Pipe()
	w.must(err)
	defer outR.Close()
	s := w.spec("pipes", "/bin/bash", "-c", `while read x; do echo "got $x"; done; echo end; exit 2`)
	task, err := w.rt.StartWith(w.ctx, s, proc.Stdio{In: inR, Out: outW})
	w.must(err)
	inR.Close()
	outW.Close()
	lines := bufio.NewScanner(outR)
	expect := func(want string) {
		t.Helper()
		w.must(outR.SetReadDeadline(time.Now().Add(20 * time.Second)))
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("read %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
	fmt.Fprintln(inW, "one")
	expect("got one")
	for i := range 3 {
		_, err := task.Suspend(w.ctx, 0)
		w.must(err)
		fmt.Fprintln(inW, "while suspended", i)
		w.checkpoint(task)
		fmt.Fprintln(inW, "while dumped", i)
		task = w.restore(s, proc.RestoreOptions{})
		expect(fmt.Sprint("got while suspended ", i))
		expect(fmt.Sprint("got while dumped ", i))
	}
	w.checkpoint(task)
	inW.Close()
	task = w.restore(s, proc.RestoreOptions{})
	expect("end")
	if e := w.end(task); e.Code != 2 {
		t.Errorf("ended with %+v", e)
	}
	if lines.Scan() {
		t.Errorf("something came after the end: %q", lines.Text())
	}
}

// Without the shim that holds them the pipes are gone, and that is said.
func TestPipesNeedTheirShim(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	inR, inW, err := os.Pipe()
	w.must(err)
	defer inW.Close()
	s := w.spec("pipes", "cat")
	task, err := w.rt.StartWith(w.ctx, s, proc.Stdio{In: inR})
	w.must(err)
	inR.Close()
	w.checkpoint(task)
	w.must(unix.Kill(w.shimPID("pipes"), syscall.SIGKILL))
	w.end(task)
	_, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
	if !errors.Is(err, proc.ErrNoImage) {
		t.Errorf("restore without the pipes: %v", err)
	}
}
