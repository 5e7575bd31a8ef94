package presence

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/proc"
	"headrace/proc/checkpoint"
)

// TestFind: a store that is not there is made anew only where nothing is missing then.
func TestFind(t *testing.T) {
	had := []headrace.TaskID{"t1"}
	for name, c := range map[string]struct {
		marked bool // there is a store
		dirs   []string
		known  Known
		had    []headrace.TaskID
		is     string // "same", "new" or "away"
	}{
		"first use":                            {is: "new"},
		"as it was":                            {marked: true, known: Known{ID: "same"}, had: had, is: "same"},
		"of another daemon":                    {marked: true, is: "same"},
		"not mounted":                          {known: Known{ID: "x"}, had: had, is: "away"},
		"another one is mounted":               {marked: true, known: Known{ID: "x"}, had: had, is: "away"},
		"not mounted, nothing was in it":       {known: Known{ID: "x"}, is: "new"},
		"memory, after a reboot":               {known: Known{ID: "x", InMemory: true}, had: had, is: "new"},
		"of an older daemon":                   {dirs: []string{"t1"}, known: Known{}, had: had, is: "new"},
		"of an older daemon, and not mounted":  {known: Known{}, had: had, is: "away"},
		"not mounted, but somebody works here": {dirs: []string{"t1"}, known: Known{ID: "x"}, had: had, is: "away"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			if InMemory(dir) {
				t.Skip("the directory for temporary files is in memory, where nothing is held to be missing")
			}
			want := ""
			if c.marked {
				var err error
				if want, err = checkpoint.Mark(dir); err != nil {
					t.Fatal(err)
				}
			}
			for _, d := range c.dirs {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.dirs) > 0 {
				if err := os.Chmod(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if c.known.ID == "same" {
				c.known.ID = want
			}
			id, err := (&Stores{Owner: checkpoint.Owner{ID: "we"}}).Find(dir, c.known, c.had)
			now, nowErr := checkpoint.ID(dir)
			switch c.is {
			case "away":
				if !errors.Is(err, proc.ErrNotNow) || !strings.Contains(err.Error(), "--new-store "+dir) || now != want {
					t.Errorf("%q, %v; the directory is now that of %q", id, err, now)
				}
			default:
				if err != nil || id == "" || now != id || nowErr != nil || c.is == "same" && id != want {
					t.Errorf("%q, %v; the directory is now that of %q, %v", id, err, now, nowErr)
				}
			}
		})
	}
}

// TestRecognizeWhileUnmounted: nothing is written where a store was when it was recognized.
func TestRecognizeWhileUnmounted(t *testing.T) {
	store, place := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "place")
	id, err := checkpoint.Mark(store)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	m := &Stores{Owner: checkpoint.Owner{ID: "we"}}
	var swapping sync.WaitGroup
	over := make(chan struct{})
	stop := sync.OnceFunc(func() { close(over); swapping.Wait() })
	defer stop()
	swapping.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, store, unix.AT_FDCWD, place, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for recognized, missed := 0, 0; recognized < 500 || missed < 500; {
		switch got, sure, err := m.Recognize(store, Known{ID: id}); {
		case err != nil || sure && got != id:
			t.Fatal(got, sure, err)
		case sure:
			recognized++
		default:
			missed++
		}
	}
	stop()
	for _, dir := range []string{store, place} {
		if has, err := checkpoint.ID(dir); err == nil && has == id {
			continue
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("in the place of the store is %v, %v", left, err)
		}
	}
}
