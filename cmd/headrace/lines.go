package main

import (
	"bytes"
	"io"
	"sync"
)

// maxHeldLine is how much of a line that does not end is held back.
const maxHeldLine = 1 << 20

// lineMerger lets several tasks write to the same place without mixing inside a
// line.
type lineMerger struct {
	// around is called with every write; nil: the write is just done.
	around func(write func() error) error

	mu sync.Mutex
}

func (m *lineMerger) writer(to io.Writer) *lineWriter { return &lineWriter{merger: m, to: to} }

func (m *lineMerger) write(to io.Writer, p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	write := func() error { _, err := to.Write(p); return err }
	if m.around == nil {
		return write()
	}
	return m.around(write)
}

// lineWriter is one task's way to one place. It is used by one goroutine. A line
// longer than maxHeldLine comes in several parts.
type lineWriter struct {
	merger *lineMerger
	to     io.Writer
	held   []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
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

// flush ends a last line that has no end.
func (w *lineWriter) flush() error {
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.Write([]byte{'\n'})
	return err
}
