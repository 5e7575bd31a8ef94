package node

import (
	"math/rand/v2"
	"time"
)

// backoff is the pauses between attempts: each about twice as long as the one before,
// up to most, with a random part, so that not all nodes come at once.
type backoff struct {
	first, most, now time.Duration
}

func (b *backoff) reset() { b.now = 0 }

func (b *backoff) longest() { b.now = b.most }

func (b *backoff) next() time.Duration {
	b.now = min(max(b.now, b.first), b.most)
	pause := b.now/2 + rand.N(b.now/2+1)
	b.now *= 2
	return pause
}
