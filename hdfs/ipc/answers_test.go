package ipc

import (
	"net"
	"slices"
	"testing"
	"time"

	"headrace/internal/accept"
)

// held is a connection of which each write waits until it is let go on.
type held struct {
	net.Conn
	writing chan []byte
	goOn    chan struct{}
}

func (h held) SetWriteDeadline(time.Time) error { return nil }

func (h held) Write(b []byte) (int, error) {
	h.writing <- slices.Clone(b)
	<-h.goOn
	return len(b), nil
}

// TestAnswersGather: who has an answer while others are written need not wait. Such answers go out together, as far as they are not so many that a
// slow client would have no time for them.
func TestAnswersGather(t *testing.T) {
	h := held{writing: make(chan []byte), goOn: make(chan struct{})}
	c := newConn(&Server{Limits: Limits{}.filled()})
	c.net = &accept.Member{Conn: h}
	var sent []string
	send := func(name string, length int) {
		c.send(answered{slices.Repeat([]byte(name), length), func() { sent = append(sent, name) }})
	}
	written := make(chan struct{})
	go func() { send("a", 1); close(written) }()
	next := func() string { return string(slices.Compact(<-h.writing)) }
	if got := next(); got != "a" {
		t.Errorf("first: %s", got)
	}
	send("b", 1)
	send("c", usual-1)
	send("d", 1)
	send("e", usual+1)
	send("f", 1)
	for _, want := range []string{"bc", "d", "e", "f"} {
		h.goOn <- struct{}{}
		if got := next(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	h.goOn <- struct{}{}
	<-written
	if want := []string{"a", "b", "c", "d", "e", "f"}; !slices.Equal(sent, want) {
		t.Errorf("sent: %v", sent)
	}
	go send("g", 1) // nobody writes any more: it does
	if got := next(); got != "g" {
		t.Errorf("the last: %s", got)
	}
	h.goOn <- struct{}{}
}
