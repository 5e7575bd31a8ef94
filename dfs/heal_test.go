package dfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"headrace/dfs/names"
	"headrace/internal/testkit"
	"headrace/meta"
)

// decay flips a bit in all places of a directory's database where a text stands.
func decay(t *testing.T, dir, text string) {
	t.Helper()
	path := filepath.Join(dir, "meta.db")
	b := must[[]byte](t)(os.ReadFile(path))
	wrong := []byte(text)
	wrong[len(wrong)-1] ^= 4
	if n := bytes.Count(b, []byte(text)); n == 0 {
		t.Fatalf("%s is nowhere in %s", text, path)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte(text), wrong), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHeals: a node whose names have decayed ends, and at its next start sets them aside and gets those of the others, as another replica, also when it dies on the way.
// What it had is deleted when it has all; it votes again, and nothing that was acknowledged is lost.
func TestHeals(t *testing.T) {
	dirs := t.TempDir()
	s := newSites(t)
	s.start(filepath.Join(dirs, "1"), nil)
	for i := range 2 {
		s.start(filepath.Join(dirs, fmt.Sprint(i+2)), s.admit)
	}
	var three []string
	for name := range s.all {
		three = append(three, name)
	}
	s.seated(three...)
	// What a start does of it before it dies.
	steps := map[string]func(dir string) error{
		"nothing": func(string) error { return nil },
		"log": func(dir string) error {
			return setLogAside(filepath.Join(dir, "log"), filepath.Join(dir, aside))
		},
		"wrong": func(dir string) error { // and what was wrong was so only in memory
			decay(t, dir, "victim-wrong-46")
			return setLogAside(filepath.Join(dir, "log"), filepath.Join(dir, aside))
		},
		"link": func(dir string) error {
			to := filepath.Join(dir, aside)
			return errors.Join(setLogAside(filepath.Join(dir, "log"), to), renew(filepath.Join(dir, "meta.db.new"), func(*bolt.Tx) error { return nil }),
				os.Link(filepath.Join(dir, "meta.db"), filepath.Join(to, "meta.db")))
		},
	}
	for step, do := range steps {
		victim := "/victim-" + step + "-42"
		made := uint64(0)
		if err := s.leader(func(n *Node) error {
			_, err := n.Propose(context.Background(), meta.Command{Caller: n.root(), Op: &meta.Mkdirs{Path: victim, Mode: 0o755}})
			if err == nil {
				raft, _ := n.Raft()
				made = raft.Applied
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		var ill *site
		testkit.Await(t, "a node that does not lead and has the victim", func() bool {
			for _, a := range s.living() {
				if raft, err := a.node.Raft(); err == nil && !a.node.Leads() && raft.Applied >= made {
					ill = a
				}
			}
			return ill != nil
		})
		name, dir := ill.node.Identity.Node, ill.dir
		was := ill.node.View().Seats[name]
		s.end(name)
		decay(t, dir, victim[1:])
		finish := s.load("b" + step)
		ill = s.start(dir, s.admit)
		<-ill.node.Failed()
		if err := ill.node.Failure(); !errors.Is(err, names.ErrDamaged) {
			t.Fatal(err)
		}
		s.end(name)
		if err := do(dir); err != nil {
			t.Fatal(err)
		}
		healed := s.start(dir, s.admit)
		testkit.Await(t, "it to vote as another replica", func() bool {
			raft, err := healed.node.Raft()
			return err == nil && raft.Replica != was && !raft.Joint && len(raft.Voters) == 3 && slices.Contains(raft.Voters, raft.Replica)
		})
		s.seated(three...)
		testkit.Await(t, "what was set aside to be deleted", func() bool {
			_, err := os.Stat(filepath.Join(dir, aside))
			return errors.Is(err, os.ErrNotExist)
		})
		// Another one goes: now its vote is needed.
		for _, a := range s.living() {
			if a.node.Leads() && a != healed {
				s.end(a.node.Identity.Node)
				t.Logf("%s: %d calls", step, finish())
				s.start(a.dir, s.admit)
				finish = nil
				break
			}
		}
		if finish != nil {
			t.Logf("%s: %d calls", step, finish())
		}
		s.seated(three...)
		if err := s.leader(func(n *Node) error {
			return n.Query(n.root(), func(q meta.Query) error {
				if st, err := q.Stat(victim, true); err != nil || st == nil {
					return fmt.Errorf("the victim is not there: %w", err)
				}
				return nil
			})
		}); err != nil {
			t.Error(err)
		}
	}
}
