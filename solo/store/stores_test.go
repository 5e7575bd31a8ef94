package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/solo/journal"
	"headrace/solo/presence"
)

// newStores returns stores, and what is to be done in the goroutine that owns them.
func newStores(t *testing.T, boot func() time.Duration, dirs ...string) (*Stores, <-chan func()) {
	mail := make(chan func())
	d := Daemon{
		Boot: boot, Wall: time.Now, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
		Background: func(work func(context.Context) func()) { go func() { mail <- work(t.Context()) }() },
		NumberOf:   func(string) (uint64, bool) { return 0, false },
	}
	var all []Config
	for _, dir := range dirs {
		all = append(all, Config{Name: filepath.Base(dir), Dir: dir})
	}
	a := New(all, d)
	a.Owner.ID = "we"
	return a, mail
}

// TestWatch: who has something in a store is asked only when that is not what it was.
func TestWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if presence.InMemory(dir) {
		t.Skip("the directory for temporary files is in memory, where nothing is held to be missing")
	}
	id, err := checkpoint.Mark(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, mail := newStores(t, linux.Clock, dir)
	asked := 0
	s := a.All[0]
	watch := func(looks, asks int) {
		t.Helper()
		asked = 0
		a.Watch(func(dir string) []headrace.TaskID {
			asked++
			return []headrace.TaskID{"t1"}
		})
		for range looks { // each ends with a message to the loop
			(<-mail)()
		}
		if asked != asks || s.looking {
			t.Errorf("asked %d times, want %d; the look goes on: %v", asked, asks, s.looking)
		}
	}
	for range 3 {
		watch(1, 0)
		if a.Away(dir) != nil || a.ID(dir) != id {
			t.Fatalf("it is %s, %v", a.ID(dir), a.Away(dir))
		}
	}
	if err := os.Rename(dir, dir+".mounted"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		watch(2, 1)
		if a.Away(dir) == nil || a.ID(dir) != id {
			t.Fatalf("when it is gone it is %s, %v", a.ID(dir), a.Away(dir))
		}
	}
	if err := os.Rename(dir+".mounted", dir); err != nil {
		t.Fatal(err)
	}
	watch(1, 0)
	if a.Away(dir) != nil || a.ID(dir) != id {
		t.Errorf("when it is back it is %s, %v", a.ID(dir), a.Away(dir))
	}
}

// TestGoneInTheMiddleOfALook: a store that goes while it is looked at is not there, as one that has gone before.
func TestGoneInTheMiddleOfALook(t *testing.T) {
	for _, empty := range []bool{false, true} {
		t.Run(fmt.Sprintf("empty directory %v", empty), func(t *testing.T) { goneInTheMiddle(t, empty) })
	}
}

func goneInTheMiddle(t *testing.T, empty bool) {
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := checkpoint.Mark(dir); err != nil {
		t.Fatal(err)
	}
	a, mail := newStores(t, linux.Clock, dir)
	look := func() {
		a.Watch(func(string) []headrace.TaskID { return nil })
		(<-mail)()
	}
	look()
	if away := a.Away(dir); away != nil {
		t.Fatal(away)
	}
	a.Space = func(string) int64 {
		err := os.Rename(dir, dir+".mounted")
		if empty {
			err = errors.Join(err, os.Mkdir(dir, 0o700))
		}
		if err != nil {
			t.Error(err)
		}
		return -1
	}
	look()
	for _, away := range []error{a.Away(dir), a.There(t.Context(), dir)} {
		if !errors.Is(away, proc.ErrNotNow) || !strings.Contains(away.Error(), "is its file system mounted?") {
			t.Errorf("it is away: %v", away)
		}
	}
}

// TestNewStoreAnswersLateWithAnError: a store that was never there before, does not answer when the daemon starts, and then with what
// a person can put right, is looked for like others, and the true reason is told.
func TestNewStoreAnswersLateWithAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := checkpoint.Mark(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a, mail := newStores(t, linux.Clock, dir)
	answer := make(chan struct{})
	a.patience = time.Millisecond
	a.Space = func(dir string) int64 {
		<-answer
		return freeSpace(dir)
	}
	if err := a.Open(t.Context(), journal.Contents{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	close(answer)
	(<-mail)()
	if away := a.Away(dir); away == nil || !strings.Contains(away.Error(), "chmod 700") {
		t.Errorf("it is away: %v; want what to do", away)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a.Watch(func(string) []headrace.TaskID { return nil })
	for a.All[0].looking {
		(<-mail)()
	}
	if a.Away(dir) != nil {
		t.Errorf("when it can be used it is away: %v", a.Away(dir))
	}
}
