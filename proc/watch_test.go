package proc

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"headrace/proc/control"
)

// TestSilenceIsToldAgain: what is asked for and takes too long is told of until it is done, and not once: the end of something else that was
// asked of the same supervisor says that there was an answer.
func TestSilenceIsToldAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := control.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go control.NewServer(func(context.Context, string, json.RawMessage) (any, error) { return nil, nil }).Serve(t.Context(), l)
	c, err := control.Dial(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	told := make(chan error, 1<<16)
	task := &Task{ID: "t", patience: 10 * time.Millisecond, c: c, silent: func(err error) { told <- err }}
	end := task.watch("suspend", time.Nanosecond)
	for n := range 3 {
		select {
		case err := <-told:
			if !errors.Is(err, ErrNoAnswer) {
				t.Errorf("it is told %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("it is told %d times", n)
		}
	}
	end()
	close(told)
	var last error
	for last = range told {
	}
	if last != nil {
		t.Errorf("at last it is told %v", last)
	}
}
