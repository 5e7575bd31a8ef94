package disktest

import (
	"sync"
	"time"
)

// Head is a model of a disk with one head. Its time passes by time.Sleep, which
// takes none inside testing/synctest.
type Head struct {
	// Seek is how long it takes to go elsewhere.
	Seek time.Duration
	// Bandwidth is in bytes per second.
	Bandwidth int64

	mu       sync.Mutex
	busy     int
	file     string
	end      int64
	seeks    int
	bytes    int64
	overlaps int
}

// HardDisk returns one of a seek of 8 ms, half a rotation of 4 ms, and 150 MB/s.
func HardDisk() *Head { return &Head{Seek: 12 * time.Millisecond, Bandwidth: 150e6} }

// Read takes as long as reading n bytes at off. Reads at the same time are
// counted, and not slowed down by each other.
func (h *Head) Read(file string, off, n int64) {
	h.mu.Lock()
	took := time.Duration(float64(n) / float64(h.Bandwidth) * float64(time.Second))
	if h.busy > 0 {
		h.overlaps++
	}
	h.busy++
	if h.file != file || h.end != off {
		h.seeks++
		took += h.Seek
	}
	h.file, h.end = file, off+n
	h.bytes += n
	h.mu.Unlock()

	time.Sleep(took)

	h.mu.Lock()
	h.busy--
	h.mu.Unlock()
}

// Counts tells what was read, with how many seeks, and how often a read began
// while another was under way.
func (h *Head) Counts() (bytes int64, seeks, overlaps int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes, h.seeks, h.overlaps
}
