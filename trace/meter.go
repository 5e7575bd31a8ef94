package trace

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// meter counts what is read, tells of it, and stops the reading when its context
// ends.
type meter struct {
	ctx    context.Context
	report func(Progress)
	now    Progress
	told   int64
}

// meterStep is how many bytes are read from one report to the next.
const meterStep = 1 << 20

func newMeter(ctx context.Context, report func(Progress)) *meter {
	return &meter{ctx: ctx, report: report, told: -meterStep}
}

// record counts one record.
func (m *meter) record() { m.now.Records++ }

func (m *meter) read(n int) error {
	m.now.Read += int64(n)
	if m.report != nil && m.now.Read-m.told >= meterStep {
		m.told = m.now.Read
		m.report(m.now)
	}
	return m.ctx.Err()
}

// done is the last report.
func (m *meter) done() {
	if m.report != nil {
		m.report(m.now)
	}
}

// metered is a reader whose bytes are counted.
type metered struct {
	io.Reader
	m *meter
}

func (r metered) Read(b []byte) (int, error) {
	if err := r.m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(b)
	if stop := r.m.read(n); stop != nil {
		return n, stop
	}
	return n, err
}

// meteredFS counts what is read from the files below dir.
type meteredFS struct {
	fs.FS
	m *meter
}

type meteredFile struct {
	fs.File
	r metered
}

func (f meteredFile) Read(b []byte) (int, error) { return f.r.Read(b) }

func (d meteredFS) Open(name string) (fs.File, error) {
	f, err := d.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return meteredFile{f, metered{f, d.m}}, nil
}

func (d meteredFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(d.FS, name) }

// expect adds the sizes of files to what there is to read.
func (m *meter) expect(dir fs.FS, names []string) {
	for _, name := range names {
		if info, err := fs.Stat(dir, name); err == nil {
			m.now.Total += info.Size()
		}
	}
}

// withFile opens a file of the system, unpacks it if its name ends in .gz, and has
// it read.
func (m *meter) withFile(name string, read func(r io.Reader) error) error {
	dir, base := path.Split(name)
	if dir == "" {
		dir = "."
	}
	files := meteredFS{os.DirFS(dir), m}
	if info, err := os.Stat(name); err != nil {
		return fmt.Errorf("trace: %w", err)
	} else if info.IsDir() {
		return fmt.Errorf("trace: %s is a directory, want a file", name)
	}
	m.expect(files, []string{base})
	return withFile(files, base, func(r io.Reader) error {
		if err := read(r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// withFile opens a file, unpacks it if its name ends in .gz, and has it read.
func withFile(dir fs.FS, name string, read func(r io.Reader) error) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bufio.NewReaderSize(f, 256<<10))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r = z
	}
	return read(r)
}
