package budget

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPlacesAreBounded(t *testing.T) {
	s := Slots[uint32]{Most: 4, Waiting: 1}
	var ends []func()
	for range s.Most {
		end, err := s.Begin(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Begin(gone, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("one more that does not wait: %v", err)
	}
	if end, err := s.Begin(t.Context(), 8); err != nil {
		t.Errorf("somebody else: %v", err)
	} else {
		end()
	}
	// One more waits until one has ended.
	begun := make(chan func())
	go func() {
		end, err := s.Begin(t.Context(), 7)
		if err != nil {
			t.Error(err)
		}
		begun <- end
	}()
	select {
	case <-begun:
		t.Fatal("too many at a time")
	case <-time.After(20 * time.Millisecond):
	}
	if _, err := s.Begin(t.Context(), 7); !errors.Is(err, ErrOver) {
		t.Errorf("one more that would wait: %v", err)
	}
	ends[0]()
	ends[0] = <-begun
	for _, end := range ends {
		end()
	}
	if len(s.open) != 0 {
		t.Errorf("left: %v", s.open)
	}
}
