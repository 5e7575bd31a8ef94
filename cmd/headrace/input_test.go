package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/cli"
	"headrace/report"
	"headrace/wire"
)

func TestSplit(t *testing.T) {
	cases := []struct {
		text string
		want split
	}{
		{"none", split{}},
		{"lines", split{rule: wire.Split_SPLIT_LINES}},
		{"lines:;", split{rule: wire.Split_SPLIT_LINES, delimiter: []byte(";")}},
		{"lines::", split{rule: wire.Split_SPLIT_LINES, delimiter: []byte(":")}},
		{`lines:\r\n`, split{rule: wire.Split_SPLIT_LINES, delimiter: []byte("\r\n")}},
		{`lines:\x00\xFf\\`, split{rule: wire.Split_SPLIT_LINES, delimiter: []byte("\x00\xff\\")}},
		{"fixed:1", split{rule: wire.Split_SPLIT_FIXED, record: 1}},
		{"fixed:4K", split{rule: wire.Split_SPLIT_FIXED, record: 4096}},
		{"raw", split{rule: wire.Split_SPLIT_RAW}},
		{"files", split{rule: wire.Split_SPLIT_FILES}},
	}
	for _, c := range cases {
		var got, again split
		if err := got.Set(c.text); err != nil || got.rule != c.want.rule || !bytes.Equal(got.delimiter, c.want.delimiter) || got.record != c.want.record {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
		if err := again.Set(got.String()); err != nil || again.String() != got.String() || again.record != got.record || !bytes.Equal(again.delimiter, got.delimiter) {
			t.Errorf("%s shows itself as %s, which is %+v, %v", c.text, got.String(), again, err)
		}
	}
	for _, text := range []string{"", "Lines", "line", "lines:", "fixed", "fixed:", "fixed:0", "fixed:-1", "fixed:x", "raw:", "files:x", "none:1", `lines:\`, `lines:\q`, `lines:\x`, `lines:\x1`, `lines:\xgg`} {
		if got := (split{}); got.Set(text) == nil {
			t.Errorf("%q was accepted as %+v", text, got)
		}
	}
}

func FuzzDelimiter(f *testing.F) {
	f.Add([]byte("\x00\n\\x"), `\x`)
	f.Add([]byte("ü\xff\u2028"), `\0`)
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		if got, err := parseBytes(escapeBytes(b)); len(b) > 0 && (err != nil || !bytes.Equal(got, b)) {
			t.Errorf("%q is written %s, which is read as %q, %v", b, escapeBytes(b), got, err)
		}
		if got, err := parseBytes(text); err == nil && len(got) == 0 {
			t.Errorf("%q is read as nothing", text)
		}
	})
}

// TestLines lets several goroutines write lines in pieces of all sizes.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	lines := &lineMerger{around: func(write func() error) error { return write() }}
	const writers, each = 8, 200
	var all sync.WaitGroup
	for g := range writers {
		all.Go(func() {
			w := lines.writer(&out)
			text := strings.Repeat(strings.Repeat(string(rune('a'+g)), 30)+"\n", each)
			text = strings.TrimSuffix(text, "\n")
			for size := 1; text != ""; size = size%97 + 1 {
				n := min(size, len(text))
				if _, err := io.WriteString(w, text[:n]); err != nil {
					t.Error(err)
				}
				text = text[n:]
			}
			if err := w.flush(); err != nil {
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
	w := (&lineMerger{}).writer(&out)
	text := strings.Repeat("x", 3*maxHeldLine)
	for i := 0; i < len(text); i += 1000 {
		io.WriteString(w, text[i:min(i+1000, len(text))])
		if len(w.held) > maxHeldLine+1000 {
			t.Fatalf("%d bytes are held", len(w.held))
		}
	}
	w.flush()
	if out.String() != text+"\n" {
		t.Errorf("%d bytes came through of %d", out.Len(), len(text)+1)
	}
	broken := errors.New("broken")
	if _, err := (&lineMerger{around: func(func() error) error { return broken }}).writer(&out).Write([]byte("x\n")); !errors.Is(err, broken) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

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
