package names

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/quorum"
)

// TestAsking: who asks gets the answer of a round that has begun since, and many share one.
func TestAsking(t *testing.T) {
	var begun atomic.Int64
	hold := make(chan struct{})
	a := &asking{read: func() error { begun.Add(1); <-hold; return nil }}
	var all sync.WaitGroup
	all.Go(func() { a.ask(nil) })
	testkit.Await(t, "the first round", func() bool { return begun.Load() == 1 })
	const many = 50
	var waiting atomic.Int64
	for range many {
		all.Go(func() {
			waiting.Add(1)
			if err := a.ask(nil); err != nil || begun.Load() < 2 {
				t.Errorf("%v, in round %d", err, begun.Load())
			}
		})
	}
	testkit.Await(t, "all to wait", func() bool { return waiting.Load() == many })
	close(hold)
	all.Wait()
	if n := begun.Load(); n < 2 || n > many/2 {
		t.Errorf("%d rounds", n)
	}
	bad := errors.New("bad")
	a.read = func() error { return bad }
	if err := a.ask(nil); err != bad {
		t.Error(err)
	}
}

// TestAskingEnds: who waits does not wait for a round that does not end, when the node does.
func TestAskingEnds(t *testing.T) {
	begun, hang, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a := &asking{ended: ended, read: sync.OnceValue(func() error { close(begun); <-hang; return nil })}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- a.ask(nil) }()
	<-begun
	go func() { second <- a.ask(nil) }() // for the next round, which never begins
	close(ended)
	for _, c := range []chan error{first, second} {
		if err := <-c; err != ErrClosed {
			t.Error(err)
		}
	}
	close(hang)
}

// TestAskingIsLate: a round that does not end holds up nobody for longer than they want to wait, and keeps one goroutine.
func TestAskingIsLate(t *testing.T) {
	begun, hang := make(chan struct{}), make(chan struct{})
	var rounds atomic.Int64
	a := &asking{read: func() error {
		if rounds.Add(1) == 1 {
			close(begun)
		}
		<-hang
		return nil
	}}
	late := make(chan time.Time)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if err := a.ask(late); err != quorum.ErrBusy {
				t.Error(err)
			}
		})
	}
	<-begun
	close(late)
	all.Wait()
	if n := rounds.Load(); n != 1 {
		t.Errorf("%d rounds", n)
	}
	close(hang)
	if err := a.ask(nil); err != nil {
		t.Error(err)
	}
}
