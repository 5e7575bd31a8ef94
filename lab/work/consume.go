package work

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"headrace/internal/linux"
	"headrace/stream/consumer"
)

// consume is the task of the experiment on streams: it counts the records of
// standard input, or of a region of a file, and does nothing else.
type consume struct {
	file         string
	from, length Size
	// slow is a rate in bytes per second that it is held to, if it is the consumer
	// with the number slowNumber of a stream, or reads a region; 0: none.
	slow       Size
	slowNumber string
}

func newConsume(fs *flag.FlagSet) work {
	c := &consume{}
	fs.StringVar(&c.file, "file", "", "what to read; empty: standard input")
	fs.Var(&c.from, "from", "where the region begins")
	fs.Var(&c.length, "length", "its bytes; records that begin in it are read to their end")
	fs.Var(&c.slow, "slow", "bytes per second at most")
	fs.StringVar(&c.slowNumber, "slow-number", "", "only consumer `N` of a stream is slow; empty: whoever runs this")
	return c
}

// run prints "consumed" and what the experiment wants to know (Consumed) before the
// usual last line.
func (c *consume) run(*meter) (uint64, error) {
	began := time.Duration(-1)
	records := &recordReader{}
	to := writerFunc(func(b []byte) (int, error) {
		if began < 0 {
			began = linux.Clock()
		}
		return records.Write(b)
	})
	err := c.read(c.brake(to))
	ended := linux.Clock()
	if err == nil {
		err = records.end()
	}
	if err != nil {
		return 0, err
	}
	if began < 0 {
		began = ended // there was nothing for it
	}
	cpu, err := ownCPU()
	if err != nil {
		return 0, err
	}
	fmt.Println(Consumed{Tally: records.found, Began: began.Seconds(), Ended: ended.Seconds(), CPU: cpu})
	return records.found.sum(), nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (c *consume) read(to io.Writer) error {
	if c.file == "" {
		// Without ReadFrom and WriteTo, which would choose pieces of their own.
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{os.Stdin}, make([]byte, 1<<20))
		return err
	}
	f, err := os.Open(c.file)
	if err != nil {
		return err
	}
	defer f.Close()
	return readRegion(f, int64(c.from), int64(c.length), to)
}

// brake makes a slow consumer slow: it sleeps whenever it is ahead of its rate.
func (c *consume) brake(to io.Writer) io.Writer {
	if c.slow == 0 || c.slowNumber != "" && c.slowNumber != os.Getenv(consumer.ConsumerEnv) {
		return to
	}
	var start time.Time
	taken := 0.0
	return writerFunc(func(b []byte) (int, error) {
		if start.IsZero() {
			start = time.Now()
		}
		n, err := to.Write(b)
		taken += float64(n)
		time.Sleep(time.Until(start.Add(time.Duration(taken / float64(c.slow) * float64(time.Second)))))
		return n, err
	})
}

// Consumed is what a consumer tells of itself. Times are seconds of the clock that
// all processes of this machine share (linux.Clock).
type Consumed struct {
	Tally
	// Began is when the first bytes came, Ended when there were no more.
	Began, Ended float64
	// CPU is its own processor time, from its start.
	CPU float64
}

// String returns the line of its output.
func (c Consumed) String() string {
	return fmt.Sprintf("consumed %d %d %d %.6f %.6f %.6f", c.Records, c.Sum, c.Squares, c.Began, c.Ended, c.CPU)
}

// ConsumedOf reads the line from what a consumer has written.
func ConsumedOf(out string) (Consumed, error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 7 || f[0] != "consumed" {
			continue
		}
		var c Consumed
		var errs []error
		for i, to := range []*uint64{&c.Records, &c.Sum, &c.Squares} {
			v, err := strconv.ParseUint(f[i+1], 10, 64)
			*to = v
			errs = append(errs, err)
		}
		for i, to := range []*float64{&c.Began, &c.Ended, &c.CPU} {
			v, err := strconv.ParseFloat(f[i+4], 64)
			*to = v
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return c, fmt.Errorf("unexpected output of a consumer: %q: %w", line, err)
		}
		return c, nil
	}
	return Consumed{}, fmt.Errorf("unexpected output of a consumer: %q", out)
}
