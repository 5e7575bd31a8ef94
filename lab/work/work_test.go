package work

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"headrace/internal/linux"
	"headrace/proc"
)

const sampleText = "a man a plan\n\n  a canal: panama  \nlast line without an end"

func sampleFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(sampleText), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lastLine runs a workload in this process.
func lastLine(t *testing.T, args ...string) string {
	t.Helper()
	t.Setenv(proc.ProgressEnv, filepath.Join(t.TempDir(), "progress"))
	for _, k := range kinds {
		if k.name != args[0] {
			continue
		}
		var out bytes.Buffer
		if err := runTask(k, args[1:], &out); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(out.String())
	}
	t.Fatalf("no workload %q", args[0])
	return ""
}

// The answers are fixed: a change means that results of different versions can
// no longer be compared.
func TestAnswers(t *testing.T) {
	text := sampleFile(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"parse fce00d20d90ce93c", []string{"parse", "--file", text}},
		{"parse e4eb0267469d19a5", []string{"parse", "--file", text, "--words"}},
		{"parse 73b16025cf0844ab", []string{"parse", "--file", text, "--bytes", "1M"}},
		{"dirty 17707c88dec2e62a", []string{"dirty", "--bytes", "1M", "--rounds", "20"}},
		{"dirty 030d5271a78a3c0a", []string{"dirty", "--bytes", "1M", "--rounds", "20", "--seed", "2"}},
		{"kmeans 06ae87ddf75a7716", []string{"kmeans", "--bytes", "1M", "--iterations", "3"}},
	} {
		for range 2 {
			if got := lastLine(t, c.args...); got != c.want {
				t.Errorf("%v: %q, want %q", c.args, got, c.want)
			}
		}
	}
}

// A workload that is to tell nobody how far it is gives the same answer.
func TestNoProgress(t *testing.T) {
	progress := filepath.Join(t.TempDir(), "progress")
	for _, silent := range []bool{false, true} {
		os.Remove(progress)
		t.Setenv(proc.ProgressEnv, progress)
		args := []string{"dirty", "--bytes", "1M", "--rounds", "20"}
		if silent {
			args = append(args, "--no-progress")
		}
		var out bytes.Buffer
		if err := Task(args, &out); err != nil || LastOf(out.String()) != "dirty 17707c88dec2e62a" {
			t.Errorf("%v: %q, %v", args, &out, err)
		}
		if _, err := os.Stat(progress); (err != nil) != silent {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestParseCounts(t *testing.T) {
	c := newCounter(true)
	for line := range strings.Lines(sampleText) {
		c.add([]byte(line))
	}
	if c.lines != 4 || c.words != 12 || c.bytes != uint64(len(sampleText)) {
		t.Errorf("%d lines, %d words, %d bytes; want 4, 12, %d", c.lines, c.words, c.bytes, len(sampleText))
	}
	if got := c.times[c.index["a"]]; got != 3 {
		t.Errorf("%d times a, want 3", got)
	}
	if c.perLine[4] != 1 || c.perLine[0] != 1 || c.perLine[3] != 1 || c.perLine[5] != 1 {
		t.Errorf("words per line %v, want one line each of 0, 3, 4 and 5", c.perLine[:8])
	}
}

func TestParseSameWithAndWithoutEnd(t *testing.T) {
	text := sampleFile(t)
	twice := filepath.Join(t.TempDir(), "twice")
	if err := os.WriteFile(twice, []byte(sampleText+sampleText), 0o600); err != nil {
		t.Fatal(err)
	}
	over := lastLine(t, "parse", "--file", text, "--bytes", strconv.Itoa(2*len(sampleText)))
	if once := lastLine(t, "parse", "--file", twice); over != once {
		t.Errorf("read twice: %s, read as one: %s", over, once)
	}
}

func TestChangedMemoryIsFound(t *testing.T) {
	quiet := func(float64) {}
	d := &dirty{bytes: 1 << 20, seed: 1}
	if err := d.fill(quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := d.check(quiet); err != nil {
		t.Fatal(err)
	}
	d.mem[12345] ^= 1
	if _, err := d.check(quiet); err == nil {
		t.Error("dirty: a flipped bit was not found")
	}

	c := &touch{bytes: 1 << 20, dir: t.TempDir(), share: 0.1}
	startTouch(t, c)
	if _, err := c.check(); err != nil {
		t.Fatal(err)
	}
	c.mem[12345] ^= 1
	if _, err := c.check(); err == nil {
		t.Error("touch: a flipped bit was not found")
	}
}

// startTouch runs c to its end without rounds.
func startTouch(t *testing.T, c *touch) {
	t.Helper()
	if err := linux.ReplaceFile(c.goFile(), []byte("end"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.run(newMeter(nil)); err != nil {
		t.Fatal(err)
	}
}

func TestTouchChangesItsShare(t *testing.T) {
	for _, contiguous := range []bool{false, true} {
		c := &touch{bytes: 4 << 20, dir: t.TempDir(), share: 0.1, contiguous: contiguous}
		startTouch(t, c)
		n := c.mem.pages()
		for round := range 3 {
			before := make([]uint64, n)
			for i := range n {
				before[i] = sumPage(c.mem.page(i))
			}
			c.change(round)
			changed := 0
			for i := range n {
				if sumPage(c.mem.page(i)) != before[i] {
					changed++
				}
			}
			if want := (n + 5) / 10; changed != want {
				t.Errorf("contiguous %v, round %d: %d of %d pages changed, want %d", contiguous, round, changed, n, want)
			}
		}
		if _, err := c.check(); err != nil {
			t.Errorf("contiguous %v: %v", contiguous, err)
		}
	}
}

func TestMeter(t *testing.T) {
	dir := t.TempDir()
	progress, half, end := filepath.Join(dir, "progress"), filepath.Join(dir, "half"), filepath.Join(dir, "end")
	t.Setenv(proc.ProgressEnv, progress)
	m := newMeter([]mark{{0.5, half}, {1, end}})
	m.set(0.4)
	if _, err := os.Stat(half); err == nil {
		t.Error("marked half at 0.4")
	}
	m.set(0.5)
	if _, err := os.Stat(half); err != nil {
		t.Errorf("half is not marked: %v", err)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(end); err != nil {
		t.Errorf("the end is not marked: %v", err)
	}
	if text, err := os.ReadFile(progress); err != nil || string(text) != "1.0000\n" {
		t.Errorf("progress %q, %v; want 1.0000", text, err)
	}

	m = newMeter([]mark{{0, filepath.Join(dir, "none", "file")}})
	m.set(0)
	if err := m.close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a mark that cannot be made: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"nonsense"},
		{"parse", "--file", filepath.Join(t.TempDir(), "missing")},
		{"parse", "--file", os.DevNull},
		{"parse", "--bytes", "many"},
		{"parse", "surplus"},
		{"dirty"},
		{"kmeans", "--bytes", "1"},
		{"kmeans", "--bytes", "1M", "--iterations", "0"},
		{"touch", "--bytes", "1M"},
		{"disk", "--dir", t.TempDir(), "--bytes", "1K"},
		{"dirty", "--bytes", "1M", "--mark", "2:file"},
	} {
		if err := Task(args, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1": 1, "1K": 1 << 10, "1.5M": 3 << 19, "2g": 2 << 30, "2GiB": 2 << 30, "3MB": 3e6} {
		var got, back Size
		if err := got.Set(text); err != nil || int64(got) != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
		if err := back.Set(got.String()); err != nil || back != got {
			t.Errorf("%d is written as %q, which reads as %d, %v", want, got.String(), back, err)
		}
	}
	for _, text := range []string{"", "K", "-1", "1X", "1e30", "NaN"} {
		if err := new(Size).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
