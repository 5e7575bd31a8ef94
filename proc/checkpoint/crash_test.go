package checkpoint

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"headrace/internal/crash"
)

const crashStoreEnv = "CHECKPOINT_TEST_CRASH_STORE"

// crashMemory returns the memory after a number of steps, the same in every process.
func crashMemory(steps int) memory {
	w := &world{rand.New(rand.NewPCG(77, 7)), make(memory)}
	for range steps {
		w.step()
	}
	return w.m
}

// TestCrashChild is what dies: it writes the fifth checkpoint and collects.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv(crashStoreEnv)
	if dir == "" {
		t.Skip("runs only as a child of TestCrash")
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkpoint(t, s, "task", crashMemory(5), BeginOptions{MaxChain: 2})
	if err := s.Collect("task"); err != nil {
		t.Fatal(err)
	}
}

// TestCrash: whenever the process dies, the newest committed checkpoint is whole,
// and the next process can go on.
func TestCrash(t *testing.T) {
	for _, c := range []struct {
		point  string
		newest int // then
	}{
		{"checkpoint.begun", 4}, {"checkpoint.pages", 4}, {"checkpoint.pages:3", 4}, {"checkpoint.before-fsync", 4},
		{"checkpoint.before-manifest", 4}, {"checkpoint.before-rename", 4},
		{"checkpoint.before-dirsync", 5}, {"checkpoint.committed", 5}, {"checkpoint.collect", 5}, {"checkpoint.collect:3", 5}, {"checkpoint.aside", 5},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, Options{})
			for i := range 4 { // chains 1-2 and 3-4; the fifth is full
				checkpoint(t, s, "task", crashMemory(i+1), BeginOptions{MaxChain: 2})
			}
			crashChild(t, s, c.point)
			images, err := s.Images("task")
			if err != nil || len(images) == 0 {
				t.Fatalf("images %v, %v", images, err)
			}
			for _, im := range images {
				if im.Err != nil {
					t.Errorf("checkpoint %d: %v", im.Seq, im.Err)
				}
			}
			newest := images[len(images)-1]
			if newest.Seq != c.newest {
				t.Fatalf("newest is %d, want %d", newest.Seq, c.newest)
			}
			if err := newest.Verify(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			compareMemory(t, restored(t, newest), crashMemory(newest.Seq))

			next := checkpoint(t, s, "task", crashMemory(6), BeginOptions{Full: true})
			if err := s.Collect("task"); err != nil {
				t.Fatal(err)
			}
			if seqs, err := s.seqs("task"); err != nil || len(seqs) != 1 || seqs[0] != next.Seq {
				t.Errorf("left: %v, %v; want only %d", seqs, err, next.Seq)
			}
			compareMemory(t, restored(t, next), crashMemory(6))
		})
	}
}

// crashChild runs TestCrashChild until it dies at a point.
func crashChild(t *testing.T, s *Store, point string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), crash.Env+"="+point, crashStoreEnv+"="+s.Dir)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, not by SIGKILL: %s", err, out)
	}
}
