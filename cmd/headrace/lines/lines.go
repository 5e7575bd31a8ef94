package lines

import (
	"bytes"
	"io"
	"sync"
)

// maxHeldLine is how much of a line that does not end is held back.
const maxHeldLine = 1 << 20

// Merger lets several Writers write to the same place without mixing inside a line. It is safe for concurrent use.
type Merger struct {
	// Around is called with every write; nil: the write is just done.
	Around func(write func() error) error

	mu sync.Mutex
}

// Writer returns a way to a place.
func (m *Merger) Writer(to io.Writer) *Writer { return &Writer{merger: m, to: to} }

func (m *Merger) write(to io.Writer, p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	write := func() error { _, err := to.Write(p); return err }
	if m.Around == nil {
		return write()
	}
	return m.Around(write)
}

// Writer is one task's way to one place. It is used by one goroutine. A line
// longer than 1 MiB comes in several parts.
type Writer struct {
	merger *Merger
	to     io.Writer
	held   []byte
}

// Write writes the lines that end in p, and holds the rest. The error is that of the place.
func (w *Writer) Write(p []byte) (int, error) {
	whole := bytes.LastIndexByte(p, '\n') + 1
	if whole > 0 {
		whole += len(w.held) // what is held has no end of a line
	}
	w.held = append(w.held, p...)
	if len(w.held)-whole > maxHeldLine {
		whole = len(w.held)
	}
	if whole == 0 {
		return len(p), nil
	}
	err := w.merger.write(w.to, w.held[:whole])
	w.held = append(w.held[:0], w.held[whole:]...)
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush ends a last line that has no end.
func (w *Writer) Flush() error {
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.Write([]byte{'\n'})
	return err
}
