package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"headrace/cli"
)

// painter shows one frame after the other in the same place of a terminal.
type painter struct {
	out   io.Writer
	full  bool
	lines int
}

const (
	showAlternate = "\x1b[?1049h"
	hideAlternate = "\x1b[?1049l"
	hideCursor    = "\x1b[?25l"
	showCursor    = "\x1b[?25h"
	cutLines      = "\x1b[?7l"
	wrapLines     = "\x1b[?7h"
	home          = "\x1b[H"
	eraseLine     = "\x1b[K"
	eraseBelow    = "\x1b[J"
)

// newPainter takes the terminal until close; full takes all of it and gives
// back what was there before.
func newPainter(out io.Writer, full bool) *painter {
	p := &painter{out: out, full: full}
	start := hideCursor + cutLines
	if full {
		start = showAlternate + start
	}
	io.WriteString(out, start)
	return p
}

func (p *painter) close() {
	end := wrapLines + showCursor
	if p.full {
		end += hideAlternate
	}
	io.WriteString(p.out, end)
}

// paint replaces the frame before. What does not fit below is left out.
func (p *painter) paint(frame string) error {
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	if _, height := cli.SizeOf(p.out); height > 1 && len(lines) > height-1 {
		hidden := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("and %d lines more", hidden))
	}
	var b strings.Builder
	switch {
	case p.full:
		b.WriteString(home)
	case p.lines > 0:
		fmt.Fprintf(&b, "\x1b[%dA\r", p.lines)
	}
	for _, line := range lines {
		// Before the line: behind one that fills the terminal it would take its end.
		b.WriteString(eraseLine + line + "\r\n")
	}
	b.WriteString(eraseBelow)
	p.lines = len(lines)
	_, err := io.WriteString(p.out, b.String())
	return err
}

// repeat calls paint now, after every interval, and when wake delivers; it
// ends without an error when ctx does.
func repeat(ctx context.Context, every time.Duration, wake <-chan os.Signal, paint func() error) error {
	ticker := time.NewTicker(max(every, 50*time.Millisecond))
	defer ticker.Stop()
	for {
		if err := paint(); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-wake:
		}
	}
}
