package migrate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headrace/blob"
	"headrace/internal/crash"
)

const crashEnv = "ARCHIVE_TEST_CRASH"

// TestCrashChild is what dies: it puts an entry, or claims, uses and removes one.
func TestCrashChild(t *testing.T) {
	what, where, ok := strings.Cut(os.Getenv(crashEnv), " ")
	if !ok {
		t.Skip("runs only as a child of TestCrash")
	}
	p, err := blob.Dir(where)
	if err != nil {
		t.Fatal(err)
	}
	a := newArchive(t, p, Options{})
	if what == "put" {
		// Two data objects.
		if _, err := a.Put(t.Context(), crashID, describe("k"), addBytes(t, "x", crashContents())); err != nil {
			t.Fatal(err)
		}
		fmt.Println("acknowledged")
		return
	}
	c, err := a.Claim(t.Context(), want("k"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("claimed")
	if what == "fetch" {
		if _, err := unpackAll(t, c, Root{Path: filepath.Join(filepath.Dir(where), "r")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Use(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("used")
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const crashID = "0123456789abcdef0123456789abcdef"

// crashContents returns what cannot be left out as a hole.
func crashContents() []byte {
	b := make([]byte, partBlocks*blockSize+1000)
	for i := 0; i < len(b); i += 512 {
		b[i] = byte(i>>9) | 1
	}
	return b
}

// crashAt runs the child until it dies, and returns what it has said.
func crashAt(t *testing.T, p blob.Place, what, point string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), crash.Env+"="+point, crashEnv+"="+what+" "+p.String())
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, not by SIGKILL: %s", err, out)
	}
	return string(out)
}

// TestCrashOfPut: what was acknowledged can be claimed, what was not is whole or
// invisible, and nothing is left in the end.
func TestCrashOfPut(t *testing.T) {
	for _, c := range []struct {
		point string
		ready bool
	}{
		{"archive.begun", false}, {"archive.part", false}, {"archive.part:2", false}, {"archive.before-manifest", false},
		{"archive.before-commit", false}, {"blob.renamed", true}, {"archive.committed", true},
	} {
		t.Run(c.point, func(t *testing.T) {
			p := newDir(t)
			if out := crashAt(t, p, "put", c.point); strings.Contains(out, "acknowledged") {
				t.Error("acknowledged before it was finished")
			}
			a := newArchive(t, p, Options{})
			claim, err := a.Claim(t.Context(), want("k"))
			if (err == nil) != c.ready || err != nil && !errors.Is(err, ErrNone) {
				t.Fatalf("claimed: %v; ready %v", err, c.ready)
			}
			if !c.ready {
				// The machine that it came from may go on with its own copy.
				if err := a.Withdraw(t.Context(), crashID); err != nil {
					t.Errorf("withdraw: %v", err)
				}
				empty(t, a)
				return
			}
			files, err := fetched(t.Context(), claim)
			if err != nil || string(files["000001/x"]) != string(crashContents()) {
				t.Errorf("%d bytes fetched, %v", len(files["000001/x"]), err)
			}
			if err := a.Withdraw(t.Context(), crashID); !errors.Is(err, ErrTaken) {
				t.Errorf("withdrawn while it is claimed: %v", err)
			}
		})
	}
}

// empty checks that nothing at all is left after a sweep.
func empty(t *testing.T, a *Archive) {
	t.Helper()
	if _, err := a.Sweep(t.Context(), Ages{}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(a.String(), "*", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestSweepOfUpload: an upload whose process has died is removed in time.
func TestSweepOfUpload(t *testing.T) {
	p := newDir(t)
	crashAt(t, p, "put", "archive.before-manifest")
	a := newArchive(t, p, Options{})
	sweep(t, a, Ages{}, Swept{})
	sweep(t, a, Ages{Upload: -time.Hour}, Swept{Removed: 1})
	empty(t, a)
}

// TestCrashOfClaim: until Use an entry comes back, afterwards it never does.
func TestCrashOfClaim(t *testing.T) {
	for _, c := range []struct {
		point       string
		said        string
		then, after State // "": gone
	}{
		{"archive.before-claim", "", Ready, Ready},
		{"blob.renamed", "", Claimed, Ready},
		{"archive.claimed", "", Claimed, Ready},
		{"archive.before-use", "claimed", Claimed, Ready},
		{"blob.renamed:2", "claimed", Used, Used},
		{"archive.used", "claimed", Used, Used},
		{"blob.renamed:3", "used", "", ""},
		{"archive.discarded", "used", "", ""},
	} {
		t.Run(c.point, func(t *testing.T) {
			p := newDir(t)
			a := newArchive(t, p, Options{})
			m := putEntry(t, a, "k")
			out := crashAt(t, p, "claim", c.point)
			if !strings.Contains(out, c.said) || c.said != "used" && strings.Contains(out, "used\n") {
				t.Errorf("it said %q", out)
			}
			if got := statesOf(t, a)[m.ID]; got != c.then {
				t.Errorf("then it is %q, want %q", got, c.then)
			}
			if _, err := a.Sweep(t.Context(), Ages{Claim: -time.Hour}); err != nil {
				t.Fatal(err)
			}
			if got := statesOf(t, a)[m.ID]; got != c.after {
				t.Errorf("after a sweep it is %q, want %q", got, c.after)
			}
			_, err := a.Claim(t.Context(), want("k"))
			if (err == nil) != (c.after == Ready) {
				t.Errorf("claimed again: %v", err)
			}
			if c.after == "" {
				empty(t, a)
			}
		})
	}
}

// TestCrashOfFetch: when a claimant dies while it makes files, the next one on the
// same machine can use what is whole, and finds nothing half made.
func TestCrashOfFetch(t *testing.T) {
	for _, point := range []string{"archive.making", "archive.made", "archive.making:2", "archive.made:2", "archive.before-use"} {
		t.Run(point, func(t *testing.T) {
			p := newDir(t)
			a := newArchive(t, p, Options{})
			top := filepath.Dir(p.String())
			root := Root{Path: filepath.Join(top, "r")}
			layout(t, top, "r/d/one", "r/d/two", "r/d/link@one")
			carried, err := Carry(t.Context(), []Wanted{{filepath.Join(top, "r/d"), true}}, []Root{root})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error { return w.AddFiles(carried) }); err != nil {
				t.Fatal(err)
			}
			want := tree(t, root.Path)
			if err := os.RemoveAll(filepath.Join(top, "r/d")); err != nil {
				t.Fatal(err)
			}
			crashAt(t, p, "fetch", point)
			for _, line := range tree(t, root.Path) {
				if strings.Contains(line, ".headrace-") || strings.HasPrefix(line, "d d") {
					continue // a name that nobody looks for; a directory without its time
				}
				if !slices.Contains(want, line) {
					t.Errorf("left: %s", line)
				}
			}
			sweep(t, a, Ages{Claim: -time.Hour}, Swept{Offered: 1})
			c, err := a.Claim(t.Context(), Want{Key: testKey("k"), UID: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := unpackAll(t, c, root); err != nil {
				t.Fatal(err)
			}
			for _, line := range want {
				if !strings.HasPrefix(line, "d d") && !slices.Contains(tree(t, root.Path), line) {
					t.Errorf("missing: %s", line)
				}
			}
		})
	}
}
