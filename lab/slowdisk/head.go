package slowdisk

import (
	"slices"
	"time"
)

// A request for some bytes of one file. Times are on the line of the head, which
// begins at 0.
type request struct {
	file   uint64
	offset int64
	length int64
	write  bool
	// arrived never goes down from one push to the next.
	arrived time.Duration
	// done is closed by whoever drives the head; nil: nobody waits.
	done chan struct{}
}

// A head serves one request after the other. It has no clock: its driver pushes
// requests in the order of their arrival, and calls serve when the head is free
// and all that have arrived by then are pushed, or by the moment of patience if
// that is later.
type head struct {
	model Model
	queue []*request // in the order of arrival

	// The last request ended at offset in file at the time free; streak are the
	// bytes that were served without a seek up to there.
	placed bool
	file   uint64
	offset int64
	free   time.Duration
	streak int64

	stats Stats
}

func (h *head) push(r *request) { h.queue = append(h.queue, r) }

// serve takes the next request off the queue, which must not be empty. The head is
// busy with it until free.
func (h *head) serve() *request {
	i := h.next()
	r := h.queue[i]
	h.queue = slices.Delete(h.queue, i, i+1)

	seek := !h.follows(r)
	if idle := r.arrived - h.free; idle > 0 && (seek || idle > h.model.Lookahead) {
		h.free = r.arrived
	}
	took := h.model.Service(r.length, seek)
	h.free += took
	if seek {
		h.streak = 0
		h.stats.Seeks++
	}
	h.streak += r.length
	h.placed, h.file, h.offset = true, r.file, r.offset+r.length
	h.stats.Requests++
	h.stats.Busy += took
	if r.write {
		h.stats.Written += r.length
	} else {
		h.stats.Read += r.length
	}
	return r
}

// patience is until when a driver waits before it calls serve: some thread may
// still be on its way with a request that was sent before those in the queue. That
// is likely when a request for a new place comes alone, or one that leaves out
// something just ahead of the head. It takes no time of the model, because the
// seek that it may save is longer. The queue must not be empty.
func (h *head) patience() time.Duration {
	r := h.queue[h.next()]
	ahead := r.offset - h.offset
	alone := h.queue[0].arrived > h.free
	gap := h.placed && r.file == h.file && ahead > 0 && ahead <= h.model.Window
	if h.follows(r) || !alone && !gap {
		return h.free
	}
	return max(h.free, r.arrived) + (h.model.Seek+h.model.Rotation)/4
}

// follows reports whether a request begins where the head is.
func (h *head) follows(r *request) bool {
	return h.placed && r.file == h.file && r.offset == h.offset
}

// next returns the place of the next request in the queue.
func (h *head) next() int {
	if h.streak < h.model.Slice {
		for i, r := range h.queue {
			if h.follows(r) {
				return i
			}
		}
	}
	oldest, best := h.queue[0], 0
	for i, r := range h.queue {
		before := oldest.offset - r.offset
		if r.file == oldest.file && before > 0 && before <= h.model.Window && r.offset < h.queue[best].offset {
			best = i
		}
	}
	return best
}
