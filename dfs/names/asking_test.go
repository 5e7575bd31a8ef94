package names

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"headrace/internal/testkit"
)

// TestAsking: who asks gets the answer of a round that has begun since, and many share one.
func TestAsking(t *testing.T) {
	var begun atomic.Int64
	hold := make(chan struct{})
	a := &asking{read: func() error { begun.Add(1); <-hold; return nil }}
	var all sync.WaitGroup
	all.Go(func() { a.ask() })
	testkit.Await(t, "the first round", func() bool { return begun.Load() == 1 })
	const many = 50
	var waiting atomic.Int64
	for range many {
		all.Go(func() {
			waiting.Add(1)
			if err := a.ask(); err != nil || begun.Load() < 2 {
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
	if err := a.ask(); err != bad {
		t.Error(err)
	}
}

// TestAskingEnds: who waits does not wait for a round that does not end, when the node does.
func TestAskingEnds(t *testing.T) {
	begun, hang, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a := &asking{ended: ended, read: sync.OnceValue(func() error { close(begun); <-hang; return nil })}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- a.ask() }()
	<-begun
	go func() { second <- a.ask() }() // for the next round, which never begins
	close(ended)
	for _, c := range []chan error{first, second} {
		if err := <-c; err != ErrClosed {
			t.Error(err)
		}
	}
	close(hang)
}
