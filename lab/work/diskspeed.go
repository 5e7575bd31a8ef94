package work

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"headrace/lab/pages"
)

// disk measures a directory: it writes random bytes to a file, makes them
// durable, drops them from memory and reads them again. It is a workload, so that
// it can be run inside the cgroup whose limits it is to feel.
type disk struct {
	dir   string
	bytes Size
}

func newDisk(fs *flag.FlagSet) work {
	d := &disk{}
	fs.StringVar(&d.dir, "dir", "", "directory to measure")
	fs.Var(&d.bytes, "bytes", "size of the file")
	return d
}

// run prints the two bandwidths before the usual last line.
func (d *disk) run(*meter) (uint64, error) {
	write, read, err := MeasureDisk(d.dir, int64(d.bytes))
	if err != nil {
		return 0, err
	}
	fmt.Printf("%.0f %.0f\n", write, read)
	return 0, nil
}

// MeasureDisk returns the achieved bandwidths, bytes per second.
func MeasureDisk(dir string, bytes int64) (write, read float64, err error) {
	if bytes < 1<<20 {
		return 0, 0, fmt.Errorf("measure %s with %d bytes: want at least 1M", dir, bytes)
	}
	f, err := os.CreateTemp(dir, "measure")
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	buf, err := randomBytes(1 << 20)
	if err != nil {
		return 0, 0, err
	}
	n := bytes >> 20 << 20

	start := time.Now()
	for range n >> 20 {
		if _, err := f.Write(buf); err != nil {
			return 0, 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, 0, err
	}
	write = float64(n) / time.Since(start).Seconds()

	if err := pages.DropCached(f); err != nil {
		return 0, 0, err
	}
	start = time.Now()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
	if err != nil {
		return 0, 0, err
	}
	if got != n {
		return 0, 0, fmt.Errorf("measure %s: read %d bytes of %d", dir, got, n)
	}
	return write, float64(n) / time.Since(start).Seconds(), nil
}

func randomBytes(n int) ([]byte, error) {
	f, err := os.Open("/dev/urandom")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	_, err = io.ReadFull(f, b)
	return b, err
}
