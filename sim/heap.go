package sim

// heap is a binary heap: the entry that is before all others is first.
type heap[T entry[T]] []T

// entry is told its place, so that it can be removed.
type entry[T any] interface {
	before(T) bool
	placed(int)
}

func (h *heap[T]) push(x T) {
	*h = append(*h, x)
	h.up(len(*h)-1, x)
}

// remove takes out the entry at a place.
func (h *heap[T]) remove(i int) T {
	n := len(*h) - 1
	x, last := (*h)[i], (*h)[n]
	clear((*h)[n:])
	*h = (*h)[:n]
	switch {
	case i == n:
	case i > 0 && last.before((*h)[(i-1)/2]):
		h.up(i, last)
	default:
		h.down(i, last)
	}
	return x
}

// up places x at i or above, down at i or below.
func (h heap[T]) up(i int, x T) {
	for i > 0 && x.before(h[(i-1)/2]) {
		h.set(i, h[(i-1)/2])
		i = (i - 1) / 2
	}
	h.set(i, x)
}

func (h heap[T]) down(i int, x T) {
	for child := 2*i + 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(x) {
			break
		}
		h.set(i, h[child])
		i = child
	}
	h.set(i, x)
}

func (h heap[T]) set(i int, x T) {
	h[i] = x
	x.placed(i)
}
