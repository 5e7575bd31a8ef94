package names

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/quorum"
)

// decay flips a bit in all places of a database's file where some bytes stand.
func decay(t testing.TB, dir string, what string) {
	t.Helper()
	path := filepath.Join(dir, "meta.db")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := bytes.Count(b, []byte(what))
	wrong := []byte(what)
	wrong[len(wrong)-1] ^= 4
	if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte(what), wrong), 0o600); n == 0 || err != nil {
		t.Fatal(n, err)
	}
}

// decayPages makes nonsense of all leaf pages but the root's of a database that has a large state.
func decayPages(t testing.TB, dir string) {
	t.Helper()
	path := filepath.Join(dir, "meta.db")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const leaf, headSize = 2, 16
	for at := 4 * os.Getpagesize(); at+headSize <= len(b); at += os.Getpagesize() {
		if h := b[at:]; binary.LittleEndian.Uint16(h[8:]) == leaf && bytes.Contains(h[:os.Getpagesize()], []byte("000099")) {
			for i := headSize; i < headSize+16*8; i++ {
				h[i] = 0x30 // far behind the end of the file
			}
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// filled makes a database with directories up to a number, and closes it.
func filled(t testing.TB, dir string, last uint64) {
	t.Helper()
	m := open(t, dir)
	for i := uint64(1); i <= last; i++ {
		apply(t, m, makes(i))
	}
	if err := errors.Join(m.flush(), m.store.(bolted).db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDecayIsFound: a bit of a value, of a key, of the sum, and pages that make no sense, are found by who reads all; a state without is whole, also after deletions
// and a flush. What was decayed is found too when it has been overwritten since.
func TestDecayIsFound(t *testing.T) {
	for name, do := range map[string]func(*testing.T, string){
		"nothing": func(*testing.T, string) {},
		"a key":   func(t *testing.T, dir string) { decay(t, dir, "000099") },
		"a value": func(t *testing.T, dir string) { decay(t, dir, "headrace-decays") },
		"pages":   func(t *testing.T, dir string) { decayPages(t, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := open(t, dir)
			set := func(i uint64, value string) {
				apply(t, m, quorum.Entry{Index: i, Data: newestMeta(meta.Command{Time: 1, Caller: person, Op: &meta.SetXAttr{Path: simDir, XAttr: meta.XAttr{Space: meta.UserSpace, Name: "a", Value: []byte(value)}, Flags: meta.XAttrCreate | meta.XAttrReplace}})})
			}
			set(1, "headrace-decays")
			for i := uint64(2); i <= 200; i++ {
				apply(t, m, makes(i))
			}
			apply(t, m, quorum.Entry{Index: 201, Data: newestMeta(meta.Command{Time: 1, Caller: person, Op: &meta.Delete{Path: simDir + "/000100"}})})
			if err := errors.Join(m.flush(), m.store.(bolted).db.Close()); err != nil {
				t.Fatal(err)
			}
			do(t, dir)
			m = open(t, dir)
			_, err := m.check(context.Background())
			if want := name != "nothing"; errors.Is(err, ErrDamaged) != want {
				t.Fatalf("%v", err)
			} else if !want {
				return
			}
			if _, err := m.Apply([]quorum.Entry{makes(300)}); !errors.Is(err, ErrDamaged) {
				t.Errorf("it goes on: %v", err)
			}
			if name != "a value" {
				return
			}
			m.store.(bolted).db.Close()
			m = open(t, dir)
			set(202, "another")
			if err := m.flush(); err != nil {
				t.Fatal(err)
			}
			if _, err := m.check(context.Background()); !errors.Is(err, ErrDamaged) {
				t.Errorf("what has lain under it is not found: %v", err)
			}
		})
	}
}

// TestDecayedSum: a sum that has decayed is damage; one of an older entry, as a version leaves it that does not know it, is made anew, as is none.
func TestDecayedSum(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   error
	}{
		"decayed": {func(b []byte) []byte { b[9] ^= 1; return b }, ErrDamaged},
		"older":   {func(b []byte) []byte { return encodeDigest(number(b[:8])-1, 7) }, nil},
		"newer":   {func(b []byte) []byte { return encodeDigest(number(b[:8])+1, 7) }, ErrDamaged},
		"none":    {func([]byte) []byte { return nil }, nil},
	} {
		dir := t.TempDir()
		filled(t, dir, 5)
		s := database(t, dir)
		if err := s.db.Update(func(tx *bolt.Tx) error {
			b := current(tx)
			if v := c.change(bytes.Clone(b.Get(digestKey))); v != nil {
				return b.Put(digestKey, v)
			}
			return b.Delete(digestKey)
		}); err != nil {
			t.Fatal(err)
		}
		m, err := newMachine(s, newest, testLog(t))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != nil {
			continue
		}
		if _, err := m.check(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDecayIsNotSent: a snapshot of a damaged state has no end, and its node ends; so nobody takes it over.
func TestDecayIsNotSent(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir, 200)
	decay(t, dir, "000099")
	m := open(t, dir)
	var told error
	m.damaged = func(err error) { told = err }
	s, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(s)
	if err := errors.Join(err, s.Close()); !errors.Is(err, ErrDamaged) || !errors.Is(told, ErrDamaged) {
		t.Errorf("%v, and told %v", err, told)
	}
	to := open(t, t.TempDir())
	if err := to.Restore(9, bytes.NewReader(b)); !errors.Is(err, errSnapshot) {
		t.Errorf("it is taken over: %v", err)
	}
}

// TestPanicOfDecay: a command that panics because of what has decayed ends the node. One that panics anyway is refused.
func TestPanicOfDecay(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		dir := t.TempDir()
		filled(t, dir, 200)
		if damaged {
			decay(t, dir, "000099")
		}
		m := open(t, dir)
		m.fault.does = func(meta.View, meta.Command) (meta.Result, error) { panic("on purpose") }
		answers, err := m.Apply([]quorum.Entry{makes(201)})
		if damaged {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("it goes on: %v", err)
			}
		} else if err != nil || len(answers) != 1 || answers[0][0] != isRefused {
			t.Errorf("%q, %v", answers, err)
		}
		m.fault.does = nil
		if _, err := m.Apply([]quorum.Entry{makes(202)}); (err != nil) != damaged {
			t.Errorf("%v", err)
		}
	}
}

// TestQueryOfDecay: who asks what makes no sense gets an error, and the node ends.
func TestQueryOfDecay(t *testing.T) {
	dir := t.TempDir()
	g, _ := start(t, dir)
	if err := g.mkdir("a"); err != nil {
		t.Fatal(err)
	}
	g.machine.flushing.Lock() // nobody is to flush
	g.machine.mu.Lock()
	g.machine.sum++
	g.machine.publish()
	g.machine.mu.Unlock()
	g.machine.flushing.Unlock()
	if err := g.Query(person, func(meta.Query) error { panic("on purpose") }); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	<-g.Failed()
}

// TestStartAfterDecay: a node that has found damage says what to do, also at the next start, where it serves nothing; the last reading that was
// right is named. One that is alone may be told to go on with what there is.
func TestStartAfterDecay(t *testing.T) {
	dir := t.TempDir()
	g, _ := start(t, dir)
	for i := range 200 {
		if err := g.mkdir(fmt.Sprintf("decays-%06d", i)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Await(t, "the first reading", func() bool { return !g.last.Load().At.IsZero() })
	at := g.last.Load().At.Format(time.RFC3339)
	s := g.machine.store.(bolted)
	if err := errors.Join(g.Close(), s.db.Close()); err != nil {
		t.Fatal(err)
	}
	decay(t, dir, "decays-000099")
	g, _ = start(t, dir) // nothing was found before
	<-g.Failed()
	says := func(err error) {
		t.Helper()
		for _, want := range []string{"docs/dfs.md", at, "--accept-damage"} {
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %v", want, err)
			}
		}
	}
	says(g.Failure())
	s = g.machine.store.(bolted)
	g.Close()
	s.db.Close()
	c := Config{Dir: filepath.Join(dir, "log"), Self: "one", Send: func(quorum.Message) {}, Now: time.Now, Log: testLog(t)}
	c.DB = database(t, dir).db
	if g, err := Open(c); err == nil {
		t.Error("it serves what is damaged")
		g.Close()
	} else {
		says(err)
	}
	c.AcceptDamage = true
	for range 2 {
		g, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.machine.check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		c.AcceptDamage = false
	}
}

// TestWayOutOfSeveral: of more than two nodes one with damage is to be replaced, and may not go on with what it has.
func TestWayOutOfSeveral(t *testing.T) {
	dir := t.TempDir()
	g, _ := start(t, dir)
	for _, name := range []string{"two", "three"} {
		if _, _, err := g.Admit(context.Background(), Member{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.wayOut(ErrDamaged); !strings.Contains(err.Error(), "headrace dfs remove one") || !strings.Contains(err.Error(), "--join") {
		t.Error(err)
	}
	if err := g.machine.flush(); err != nil {
		t.Fatal(err)
	}
	if err := g.store.accept(); err == nil {
		t.Error("damage is accepted where others have what is right")
	}
}
