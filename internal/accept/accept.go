package accept

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	minPause = 5 * time.Millisecond
	maxPause = 500 * time.Millisecond
	// logEvery is how often the same trouble is told of.
	logEvery = time.Minute
)

// Listener is a listener whose Accept fails only when it was closed, or for good.
// While there is a shortage, of descriptors or of memory, it waits and tries again.
type Listener struct {
	net.Listener
	// Name is for the log.
	Name string
	Log  *slog.Logger
	// Reserve, if not nil, is lent while there are no descriptors. Whoever has it
	// must see that it is filled again: see Reserve.
	Reserve *Reserve

	told time.Time
}

// Accept waits for the next connection. One goroutine may call it at a time.
func (l *Listener) Accept() (net.Conn, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			return conn, nil
		case !passing(err):
			return nil, err
		case errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR):
			continue // its peer has gone, or we were interrupted
		case short(err) && l.Reserve.lend():
			continue
		}
		if now := time.Now(); now.Sub(l.told) > logEvery && l.Log != nil {
			l.told = now
			l.Log.Error("connections cannot be accepted; trying again", "of", l.Name, "err", err)
		}
		time.Sleep(pause)
	}
}

// short tells whether an error is for want of descriptors.
func short(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// passing tells whether an accept may succeed later.
func passing(err error) bool {
	for _, e := range []error{unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EINTR, unix.EPROTO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return short(err)
}

// Reserve keeps descriptors back. When the process has no others left, a listener
// lends one for the next connection; whoever takes connections calls Filled before
// it keeps one of an ordinary user. So the reserve goes to those who must get an
// answer. It is safe for concurrent use; nil is an empty one.
type Reserve struct {
	mu    sync.Mutex
	size  int
	files []*os.File
}

// NewReserve keeps n descriptors back.
func NewReserve(n int) (*Reserve, error) {
	r := &Reserve{size: n}
	if !r.Filled() {
		defer r.Close()
		return nil, errors.New("there are not enough descriptors to keep some back; raise the limit (ulimit -n)")
	}
	return r, nil
}

// Filled fills the reserve as far as there are descriptors, and reports whether it
// is full.
func (r *Reserve) Filled() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.files) < r.size {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return false
		}
		r.files = append(r.files, f)
	}
	return true
}

// lend frees one descriptor, and reports whether there was one.
func (r *Reserve) lend() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.files)
	if n == 0 {
		return false
	}
	r.files[n-1].Close()
	r.files = r.files[:n-1]
	return true
}

// Close gives the reserve back.
func (r *Reserve) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.files {
		f.Close()
	}
	r.files, r.size = nil, 0
}
