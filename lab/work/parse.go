package work

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

// parse reads a text file as often as needed and counts the words of each line:
// the light, stateless task of os-assisted-preemption, section IV-A. With words
// it also counts how often each word occurs, which gives it memory of some size.
type parse struct {
	file  string
	bytes Size
	words bool
}

func newParse(fs *flag.FlagSet) work {
	p := &parse{}
	fs.StringVar(&p.file, "file", "", "text to read")
	fs.Var(&p.bytes, "bytes", "how much to read, over and over from the start; 0: the file once")
	fs.BoolVar(&p.words, "words", false, "count every word")
	return p
}

func (p *parse) run(m *meter) (uint64, error) {
	f, err := os.Open(p.file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() == 0 {
		return 0, fmt.Errorf("read %s: the file is empty", p.file)
	}
	if p.bytes == 0 {
		p.bytes = Size(info.Size())
	}
	text := &cycle{file: f, left: int64(p.bytes)}
	c := newCounter(p.words)
	r := bufio.NewReaderSize(text, 256<<10)
	for lines := 1; ; lines++ {
		line, err := r.ReadSlice('\n')
		c.add(line)
		if lines%512 == 0 {
			m.set(1 - float64(text.left)/float64(p.bytes))
		}
		switch {
		case err == io.EOF:
			if p.words {
				fmt.Println(c)
			}
			return c.sum(), nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return 0, fmt.Errorf("read %s: %w", p.file, err)
		}
	}
}

// cycle reads left bytes from the file, over and over.
type cycle struct {
	file *os.File
	off  int64
	left int64
}

func (c *cycle) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), c.left)]
	n, err := c.file.ReadAt(b, c.off)
	c.off += int64(n)
	c.left -= int64(n)
	if err == io.EOF {
		if c.off == 0 {
			return n, io.ErrUnexpectedEOF
		}
		c.off, err = 0, nil
	}
	return n, err
}

// counter is the state of a parse.
type counter struct {
	lines, words, bytes uint64
	// perLine[n] is the number of lines with n words; the last one has the rest.
	perLine [64]uint64

	index map[string]int
	times []uint64
}

func newCounter(words bool) *counter {
	c := &counter{}
	if words {
		c.index = map[string]int{}
	}
	return c
}

func isWord(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b >= 0x80
}

func (c *counter) add(line []byte) {
	n, start := uint64(0), -1
	for i, b := range line {
		switch in := isWord(b); {
		case in && start < 0:
			start = i
			n++
		case !in && start >= 0:
			c.word(line[start:i])
			start = -1
		}
	}
	if start >= 0 {
		c.word(line[start:])
	}
	c.lines++
	c.words += n
	c.bytes += uint64(len(line))
	c.perLine[min(n, uint64(len(c.perLine)-1))]++
}

func (c *counter) word(w []byte) {
	if c.index == nil {
		return
	}
	if i, ok := c.index[string(w)]; ok {
		c.times[i]++
		return
	}
	c.index[string(w)] = len(c.times)
	c.times = append(c.times, 1)
}

// String returns the answer for people, when every word was counted.
func (c *counter) String() string {
	most, times := "", uint64(0)
	for w, i := range c.index {
		if n := c.times[i]; n > times || n == times && w < most {
			most, times = w, n
		}
	}
	return fmt.Sprintf("%d lines, %d words, %d of them different; %q occurs %d times", c.lines, c.words, len(c.times), most, times)
}

// sum depends on every count.
func (c *counter) sum() uint64 {
	s := fold(fold(fold(0, c.lines), c.words), c.bytes)
	for _, n := range c.perLine {
		s = fold(s, n)
	}
	times := slices.Clone(c.times)
	slices.Sort(times)
	for _, n := range times {
		s = fold(s, n)
	}
	return s
}
