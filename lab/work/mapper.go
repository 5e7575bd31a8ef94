package work

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"
)

// Mapper is a job of MapReduce in one process: it starts up, reads its input in
// blocks with several readers at a time, each taking the next block when it is
// done with one, and does the rest, which is not reading. Starting up and the rest
// are told as times and spent asleep: they stand for what other machines and
// other disks do. What it does with a block is a checksum, or with words, to count
// them, or to sort it: then it writes as much again as it has read, and merges that
// into one sorted file, on the disk that Sort lies on.
type Mapper struct {
	File       string
	Block      Size
	Readers    int
	Start, End time.Duration
	Words      bool
	// Sort is the directory for what is sorted; empty: nothing is.
	Sort string

	sorter *sorter
}

func newMapper(fs *flag.FlagSet) work {
	m := &Mapper{Block: 4 << 20}
	fs.StringVar(&m.File, "file", "", "what to read; empty: nothing")
	fs.Var(&m.Block, "block", "bytes of a block")
	fs.IntVar(&m.Readers, "readers", 1, "how many blocks are read at a time")
	fs.DurationVar(&m.Start, "start", 0, "how long it takes to start up")
	fs.DurationVar(&m.End, "end", 0, "how long it goes on when all is read")
	fs.BoolVar(&m.Words, "words", false, "count words and lines as well")
	fs.StringVar(&m.Sort, "sort", "", "the directory in which to sort what is read")
	return m
}

// run prints "block READ WHOLE" for each block before the usual last line: the
// seconds that reading it took, and with computing.
func (m *Mapper) run(*meter) (sum uint64, err error) {
	if m.Block <= 0 || m.Readers < 1 {
		return 0, fmt.Errorf("blocks of %d bytes, %d readers: want at least one of each", m.Block, m.Readers)
	}
	time.Sleep(m.Start)
	done := &Mapped{}
	if m.File != "" {
		runtime.GOMAXPROCS(m.Readers + 1) // a reader in a system call holds up no other
		info, err := os.Stat(m.File)
		if err != nil {
			return 0, err
		}
		if m.Sort != "" {
			if m.sorter, err = newSorter(m.Sort, info.Size(), int64(m.Block)); err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, m.sorter.close()) }()
		}
		if err := m.Read(info.Size(), done); err != nil {
			return 0, err
		}
	}
	fmt.Print(done.times.String())
	time.Sleep(m.End)
	if m.sorter != nil {
		return m.sorter.merge()
	}
	return done.Sum, nil
}

// Mapped is what came of all blocks. The sum does not depend on their order.
type Mapped struct {
	mu    sync.Mutex
	Sum   uint64
	times strings.Builder
}

// Read takes the first bytes of the file, block by block, and adds up what came of them.
func (m *Mapper) Read(size int64, done *Mapped) error {
	var next atomic.Int64
	var readers errgroup.Group
	for range m.Readers {
		readers.Go(func() error { return m.reader(&next, size, done) })
	}
	return readers.Wait()
}

// reader takes blocks until there are none left. The file is opened for each, as
// by a task that reads nothing else.
func (m *Mapper) reader(next *atomic.Int64, size int64, done *Mapped) error {
	buf := make([]byte, 256<<10)
	for {
		i := next.Add(1) - 1
		from := i * int64(m.Block)
		if from >= size {
			return nil
		}
		began := time.Now()
		sum, reading, err := m.one(from, min(int64(m.Block), size-from), buf)
		if err != nil {
			return fmt.Errorf("read %s: %w", m.File, err)
		}
		whole := time.Since(began)
		done.mu.Lock()
		done.Sum += fold(uint64(i), sum)
		fmt.Fprintf(&done.times, "block %.6f %.6f\n", reading.Seconds(), whole.Seconds())
		done.mu.Unlock()
	}
}

// one reads a block and returns its sum and how long the reading took.
func (m *Mapper) one(from, length int64, buf []byte) (sum uint64, reading time.Duration, err error) {
	began := time.Now()
	f, err := os.Open(m.File)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	in, hash := io.NewSectionReader(f, from, length), xxh3.New()
	reading = time.Since(began)
	var text wordCount
	var block bytes.Buffer
	for left := length; ; {
		began := time.Now()
		n, err := in.Read(buf)
		reading += time.Since(began)
		left -= int64(n)
		hash.Write(buf[:n])
		if m.Words {
			text.add(buf[:n])
		}
		if m.sorter != nil {
			block.Write(buf[:n])
		}
		switch {
		case errors.Is(err, io.EOF) && left > 0:
			return 0, 0, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF) && m.sorter != nil:
			return 0, reading, m.sorter.add(from/int64(m.Block), block.Bytes())
		case errors.Is(err, io.EOF):
			return fold(fold(hash.Sum64(), text.words), text.lines), reading, nil
		case err != nil:
			return 0, 0, err
		}
	}
}

// wordCount counts what it is given piece by piece.
type wordCount struct {
	words, lines uint64
	inside       bool
}

func (c *wordCount) add(b []byte) {
	for _, x := range b {
		is := isWord(x)
		if is && !c.inside {
			c.words++
		}
		if x == '\n' {
			c.lines++
		}
		c.inside = is
	}
}

// mapperBlock is one line of a mapper's output.
type mapperBlock struct{ Read, Whole float64 }

// BlocksOf returns the blocks that a mapper has written about.
func BlocksOf(out string) ([]mapperBlock, error) {
	var all []mapperBlock
	for line := range strings.Lines(out) {
		rest, is := strings.CutPrefix(line, "block ")
		if !is {
			continue
		}
		v, err := ParseFloats(rest)
		if err != nil || len(v) != 2 {
			return nil, fmt.Errorf("unexpected output of a task: %q", line)
		}
		all = append(all, mapperBlock{v[0], v[1]})
	}
	return all, nil
}

// Args returns those of bench-task.
func (m Mapper) Args() []string {
	args := []string{"map", "--block", strconv.FormatInt(int64(m.Block), 10), "--readers", strconv.Itoa(m.Readers),
		"--start", m.Start.String(), "--end", m.End.String()}
	if m.Words {
		args = append(args, "--words")
	}
	if m.File != "" {
		args = append(args, "--file", m.File)
	}
	if m.Sort != "" {
		args = append(args, "--sort", m.Sort)
	}
	return args
}
