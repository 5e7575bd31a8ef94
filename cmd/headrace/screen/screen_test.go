package screen

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

func TestPainterStaysInPlace(t *testing.T) {
	var out bytes.Buffer
	p := New(&out, false, nil)
	for _, frame := range []string{"a\nb\n", "c\n", "d\n"} {
		if err := p.Paint(frame); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	want := hideCursor + cutLines +
		"\x1b[Ka\r\n\x1b[Kb\r\n\x1b[J" +
		"\x1b[2A\r\x1b[Kc\r\n\x1b[J" +
		"\x1b[1A\r\x1b[Kd\r\n\x1b[J" +
		wrapLines + showCursor
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestPainterGivesTheScreenBack(t *testing.T) {
	var out bytes.Buffer
	p := New(&out, true, nil)
	if err := p.Paint("a\n"); err != nil {
		t.Fatal(err)
	}
	p.Close()
	want := showAlternate + hideCursor + cutLines + "\x1b[H\x1b[Ka\r\n\x1b[J" + wrapLines + showCursor + hideAlternate
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestRepeat(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	err := Repeat(ctx, time.Millisecond, nil, func() error {
		if n++; n == 3 {
			cancel()
			return ctx.Err()
		}
		return nil
	})
	if err != nil || n != 3 {
		t.Errorf("painted %d times, %v; want 3 times and no error when it is interrupted", n, err)
	}
	broken := errors.New("broken")
	if err := Repeat(context.Background(), time.Hour, nil, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the painter's error", err)
	}
}
