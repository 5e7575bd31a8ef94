package ipc

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/semaphore"

	"headrace/internal/accept"
	"headrace/internal/budget"
)

// Limits bound what clients may take of a server. 0: the default. All addresses of one /64 of IPv6 are one.
type Limits struct {
	// Frame is the largest request, in bytes (64 MB, as Hadoop's ipc.maximum.data.length was);
	// before a client has said who it is, it may send 64 KB.
	Frame int
	// Connections are those of all addresses (8,192) and of one (1,024). One too many takes the
	// place of the address's, or else of everybody's, that is idle for longest.
	Connections, AddressConnections int
	// Memory is for requests that are being read or served, and answers that are not sent, in bytes: of all
	// (512 MB), and of one address (128 MB); of both those that are longer than 64 KB have three quarters. Who would have more is disconnected.
	Memory, AddressMemory int64
	// Large is for answers that say that they are large while they are put together (Call.Reserve), in bytes of all (256 MB). They wait
	// for each other.
	Large int64
	// Calls of one connection at a time (128); it is not read while it has more.
	Calls int
	// Handshake is how long a client may take until it has said who it is (20 s), Request how long one
	// request may take to arrive (60 s), Answer to be taken (60 s), and Idle how long a
	// connection without calls is kept (10 min).
	Handshake, Request, Answer, Idle time.Duration
}

// strangerFrame is the largest frame of a client that has not said who it is.
const strangerFrame = 64 << 10

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (l Limits) filled() Limits {
	orDefault(&l.Frame, 64<<20)
	orDefault(&l.Connections, 8192)
	orDefault(&l.AddressConnections, 1024)
	orDefault(&l.Memory, 512<<20)
	orDefault(&l.AddressMemory, 128<<20)
	orDefault(&l.Large, 256<<20)
	orDefault(&l.Calls, 128)
	orDefault(&l.Handshake, 20*time.Second)
	orDefault(&l.Request, time.Minute)
	orDefault(&l.Answer, time.Minute)
	orDefault(&l.Idle, 10*time.Minute)
	return l
}

// memory is what requests and answers take. It is safe for concurrent use.
type memory struct {
	all budget.SharedTiers
	// long are those that are longer than usual: a quarter of all is left to the others, which nearly all calls are.
	long budget.SharedTiers
}

// usual is how many bytes a request or an answer has at most that may have the last quarter of the memory.
const usual = 64 << 10

func newMemory(l Limits) *memory {
	return &memory{
		all:  budget.SharedTiers{Tiers: budget.Tiers{What: "bytes of requests", Owner: l.AddressMemory, All: l.Memory}},
		long: budget.SharedTiers{Tiers: budget.Tiers{What: "bytes of long requests", Owner: l.AddressMemory / 4 * 3, All: l.Memory / 4 * 3}},
	}
}

// take takes some for a request or an answer of a length.
func (m *memory) take(from netip.Addr, length, bytes int) error {
	who := owner(from)
	err := m.all.Take(who, int64(bytes))
	if err == nil && length > usual {
		if err = m.long.Take(who, int64(bytes)); err != nil {
			m.all.Give(who, int64(bytes))
		}
	}
	if err != nil {
		return fmt.Errorf("requests and answers: %w", err)
	}
	return nil
}

// give gives back what was taken.
func (m *memory) give(from netip.Addr, length, bytes int) {
	m.all.Give(owner(from), int64(bytes))
	if length > usual {
		m.long.Give(owner(from), int64(bytes))
	}
}

func owner(from netip.Addr) string { return accept.Network(from).String() }

// large is what answers take that are being put together, before anybody knows how long they are.
type large struct {
	all  *semaphore.Weighted
	most int64
	held int64 // by one call
}

// Reserve waits until an answer that takes so many bytes of memory may be put together. They are given back when it is encoded. What a call
// reserves after the first time it has anyhow.
func (c *Call) Reserve(ctx context.Context, bytes int64) error {
	l := &c.large
	if l.all == nil || l.held > 0 {
		return nil
	}
	bytes = min(bytes, l.most)
	if err := l.all.Acquire(ctx, bytes); err != nil {
		return err
	}
	l.held = bytes
	return nil
}

// Enter has a call that came by another way reserve memory beside those of the server, until leave is called, once its answer is encoded.
func (s *Server) Enter(c *Call) (leave func()) {
	s.init()
	c.large = large{all: s.large, most: s.Limits.Large}
	return c.large.giveBack
}

func (l *large) giveBack() {
	if l.held > 0 {
		l.all.Release(l.held)
		l.held = 0
	}
}
