package lines

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

// TestLines lets several goroutines write lines in pieces of all sizes.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	merger := &Merger{Around: func(write func() error) error { return write() }}
	const writers, each = 8, 200
	var all sync.WaitGroup
	for g := range writers {
		all.Go(func() {
			w := merger.Writer(&out)
			text := strings.Repeat(strings.Repeat(string(rune('a'+g)), 30)+"\n", each)
			text = strings.TrimSuffix(text, "\n")
			for size := 1; text != ""; size = size%97 + 1 {
				n := min(size, len(text))
				if _, err := io.WriteString(w, text[:n]); err != nil {
					t.Error(err)
				}
				text = text[n:]
			}
			if err := w.Flush(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	count := map[string]int{}
	for _, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		count[line]++
	}
	for g := range writers {
		if line := strings.Repeat(string(rune('a'+g)), 30); count[line] != each {
			t.Errorf("%d lines of %s, want %d", count[line], line, each)
		}
	}
	if len(count) != writers {
		t.Errorf("%d different lines, want %d", len(count), writers)
	}
}

func TestLongLine(t *testing.T) {
	var out bytes.Buffer
	w := (&Merger{}).Writer(&out)
	text := strings.Repeat("x", 3*maxHeldLine)
	for i := 0; i < len(text); i += 1000 {
		io.WriteString(w, text[i:min(i+1000, len(text))])
		if len(w.held) > maxHeldLine+1000 {
			t.Fatalf("%d bytes are held", len(w.held))
		}
	}
	w.Flush()
	if out.String() != text+"\n" {
		t.Errorf("%d bytes came through of %d", out.Len(), len(text)+1)
	}
	broken := errors.New("broken")
	if _, err := (&Merger{Around: func(func() error) error { return broken }}).Writer(&out).Write([]byte("x\n")); !errors.Is(err, broken) {
		t.Errorf("got %v, want the writer's error", err)
	}
}
