package stream

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/pagecache"
)

// chaos has consumers that lose their connections, die and come again, and an
// engine that is killed and started again, until everything is committed.
type chaos struct {
	*place
	info Info
	// gate is held for reading by who talks to the engine through its API, for
	// writing by who replaces it.
	gate  sync.RWMutex
	steps atomic.Int64
	// kills are the numbers of steps after which the engine is killed.
	kills []int64
	mu    sync.Mutex
}

// step counts something that happened, and now and then kills the engine.
func (c *chaos) step() {
	n := c.steps.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kills) == 0 || n < c.kills[0] {
		return
	}
	c.kills = c.kills[1:]
	c.gate.Lock()
	defer c.gate.Unlock()
	c.stop()
	c.start()
}

// consume runs one consumer to its commit.
func (c *chaos) consume(index uint32, rng *rand.Rand) *client {
	for attempt := uint32(1); ; attempt++ {
		cl := c.client(c.info.ID, index, attempt)
		if c.attempt(cl, rng) {
			return cl
		}
		c.gate.RLock()
		err := c.e.Fail(c.info.ID, int(index), int(attempt))
		c.gate.RUnlock()
		if err != nil {
			c.t.Error(err)
		}
	}
}

// attempt is true when it was committed, false when it died.
func (c *chaos) attempt(cl *client, rng *rand.Rand) bool {
	for {
		err := cl.connect()
		for err == nil {
			c.step()
			switch rng.IntN(40) {
			case 0:
				cl.disconnect()
				return false
			case 1, 2:
				err = errStopped
				continue
			}
			err = cl.next(func() bool { return rng.IntN(20) == 0 })
		}
		if err == errEnd {
			err = cl.finish(0)
			if err == nil {
				cl.disconnect()
				return true
			}
		}
		if cl.conn != nil {
			cl.disconnect()
		}
		if errors.Is(err, errRefused) {
			c.t.Errorf("consumer %d, attempt %d: %v", cl.hello.Consumer, cl.hello.Attempt, err)
			return true
		}
		time.Sleep(time.Millisecond) // the engine may be away: not to spin
	}
}

// TestEveryRecordOnce kills consumers and the engine at random: what was
// committed has every byte once.
func TestEveryRecordOnce(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 2
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 17))
			c := &chaos{place: newPlace(t)}
			c.seekless = seed%2 == 1
			c.local.Cache = &fakeCache{resident: func(_ *os.File, r pagecache.Range) int64 {
				return r.Len * (r.Off / (1 << 20) % 2)
			}}
			c.start()
			var data []byte
			var paths []string
			for i := range 1 + rng.IntN(4) {
				part := lines(rng, rng.IntN(4<<20), 1000)
				paths = append(paths, c.write(fmt.Sprint("f", i), part))
				data = append(data, part...)
			}
			for i := range rng.IntN(40) {
				part := lines(rng, rng.IntN(20<<10), 200)
				paths = append(paths, c.write(fmt.Sprintf("small%02d", i), part))
				data = append(data, part...)
			}
			at := int64(0)
			for range rng.IntN(6) {
				at += 1 + rng.Int64N(60)
				c.kills = append(c.kills, at)
			}
			c.info = c.open(Spec{Paths: paths, Rule: byLine, Consumers: 1 + rng.IntN(5)})
			var wg sync.WaitGroup
			clients := make([]*client, len(c.info.Consumers))
			for i := range clients {
				own := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
				wg.Go(func() { clients[i] = c.consume(uint32(i), own) })
			}
			wg.Wait()
			if got, want := sorted(clients), sortedLines(data); !slices.Equal(got, want) {
				t.Fatalf("got %d records, want %d", len(got), len(want))
			}
			c.replayAll(clients)
		})
	}
}

// replayAll runs another attempt of every consumer: it gets the same again, for the others keep theirs.
func (c *chaos) replayAll(clients []*client) {
	for _, old := range clients {
		cl := c.client(c.info.ID, old.hello.Consumer, old.hello.Attempt+1)
		if err := cl.drain(0); err != nil {
			c.t.Fatal(err)
		}
		if !bytes.Equal(joined([]*client{cl}), joined([]*client{old})) {
			c.t.Errorf("consumer %d got something else when it ran again", old.hello.Consumer)
		}
	}
}

func sorted(clients []*client) []string {
	var all []byte
	for _, c := range clients {
		for i, u := range c.got {
			all = append(all, u...)
			if c.open[i] {
				all = append(all, '\n')
			}
		}
	}
	return sortedLines(all)
}

func sortedLines(data []byte) []string {
	list := strings.SplitAfter(string(data), "\n")
	slices.Sort(list)
	return list
}
