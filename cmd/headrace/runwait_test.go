package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headrace/cli"
	"headrace/report"
	"headrace/wire"
)

// TestRunProgress waits for tasks with a bar, which makes room for their lines.
func TestRunProgress(t *testing.T) {
	fake := newFake(t.TempDir())
	fake.tasks = []*wire.Task{{Id: "t1", State: "running", Input: &wire.TaskInput{Stream: "s1", Bytes: 1000, Dealt: 250}}}
	if err := fake.start(); err != nil {
		t.Fatal(err)
	}
	defer fake.stop()
	var screen screenOf
	a := &app{stateDir: strings.TrimSuffix(fake.socket, "/"+wire.SocketName), App: cli.App{Format: cli.FormatTable, Out: &screen, Err: &screen}}
	d, err := a.daemon()
	if err != nil {
		t.Fatal(err)
	}
	w := &runWait{app: taskVerbs{a}, ids: []string{"t1"}, logs: true, dealt: true}
	w.follower = &follower{daemon: d, patience: cli.Span(time.Second), say: w.say}
	stop := w.follow(t.Context(), report.NewProgress(&screen, true))
	screen.await(t, "250 B of 1.0 kB dealt")
	fake.change(func() { fake.chunks["t1"] = []*wire.LogChunk{{Data: []byte("hel")}} })
	fake.change(func() { fake.chunks["t1"] = append(fake.chunks["t1"], &wire.LogChunk{Data: []byte("lo")}) })
	fake.change(func() { fake.tasks[0].State = "done" })
	w.showLogs(t.Context())
	stop()
	text := screen.String()
	if !strings.Contains(text, "\r\x1b[Khello\n\r") || !strings.HasSuffix(text, "\r\x1b[K") {
		t.Errorf("the line is not between a bar and the next: %q", text)
	}
}

// TestSaidOnce: what several who wait have to say is said once, and again when it has become so again.
func TestSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		w := &runWait{app: taskVerbs{&app{App: cli.App{Err: &said}}}}
		for _, pause := range []time.Duration{0, time.Second, time.Minute} {
			time.Sleep(pause) // of the bubble's clock
			w.say("%s is away", "it")
		}
		if want := strings.Repeat("headrace: it is away\n", 2); said.String() != want {
			t.Errorf("said is %q, want %q", said.String(), want)
		}
	})
}

// screenOf is written to by several goroutines.
type screenOf struct{ output }

func (s *screenOf) String() string { text, _ := s.read(); return text }

func (s *screenOf) await(t *testing.T, what string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		text, more := s.read()
		if strings.Contains(text, what) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("%q never came: %q", what, text)
		}
	}
}

func TestErrorsOfOldDaemons(t *testing.T) {
	resp := &wire.RunResponse{Id: "t1"}
	if ids, err := accepted(&wire.RunRequest{}, resp); err != nil || len(ids) != 1 || ids[0] != "t1" {
		t.Errorf("without an input: %v, %v", ids, err)
	}
	if _, err := accepted(&wire.RunRequest{Input: &wire.Input{}}, resp); err == nil {
		t.Error("a daemon that passes over the input is believed")
	}
}
