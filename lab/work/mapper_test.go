package work

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The answers are fixed: a change means that results of different versions can no
// longer be compared.
func TestMapperAnswers(t *testing.T) {
	text := sampleFile(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"map 0000000000000000", []string{"map"}},
		{"map 22fe08dd13fb503d", []string{"map", "--file", text}},
		{"map 5c8b96634fa62b01", []string{"map", "--file", text, "--words"}},
		{"map 4c512f8cdae9544d", []string{"map", "--file", text, "--block", "10"}},
	} {
		for _, readers := range []string{"1", "3"} {
			got := lastLine(t, append(c.args, "--readers", readers)...)
			if got != c.want {
				t.Errorf("%v, %s readers: %q, want %q", c.args, readers, got, c.want)
			}
		}
	}
}

func TestMapperCountsWords(t *testing.T) {
	var want wordCount
	want.add([]byte(sampleText))
	if want.words != 12 || want.lines != 3 {
		t.Errorf("%d words, %d lines; want 12 and 3", want.words, want.lines)
	}
	for cut := range len(sampleText) {
		var c wordCount
		c.add([]byte(sampleText[:cut]))
		c.add([]byte(sampleText[cut:]))
		if c != want {
			t.Errorf("cut at %d: %+v, want %+v", cut, c, want)
		}
	}
}

func TestMapperReadsEveryBlockOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, block := range []Size{1, 999, 1000, 1001, 9999, 10000, 10001, 1 << 40} {
		done := &Mapped{}
		m := Mapper{File: path, Block: block, Readers: 4}
		if err := m.Read(10000, done); err != nil {
			t.Fatal(err)
		}
		blocks, err := BlocksOf(done.times.String())
		if want := int((10000 + block - 1) / block); err != nil || len(blocks) != want {
			t.Errorf("blocks of %d: %d were read, %v; want %d", block, len(blocks), err, want)
		}
		for _, b := range blocks {
			if b.Read < 0 || b.Whole < b.Read-1e-5 {
				t.Errorf("a block was read in %v s and worked on for %v s", b.Read, b.Whole)
			}
		}
	}
}

func TestMapperFails(t *testing.T) {
	text := sampleFile(t)
	for _, args := range [][]string{
		{"map", "--file", text + "no"},
		{"map", "--file", text, "--readers", "0"},
		{"map", "--file", text, "--block", "0"},
		{"map", text},
	} {
		if err := Task(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	short := Mapper{File: text, Block: 10, Readers: 2}
	if err := short.Read(1000, &Mapped{}); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("a file that has become shorter: %v", err)
	}
}

func TestBlocksOf(t *testing.T) {
	blocks, err := BlocksOf("block 0.5 0.75\nnoise\nblock 1 2\nmap 00\n")
	if err != nil || fmt.Sprint(blocks) != "[{0.5 0.75} {1 2}]" {
		t.Errorf("%v, %v", blocks, err)
	}
	for _, bad := range []string{"block 1\n", "block 1 x\n", "block 1 2 3"} {
		if _, err := BlocksOf(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
