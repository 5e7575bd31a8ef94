package input

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

// Meter counts what is read, tells of it, and stops the reading when its context
// ends.
type Meter struct {
	ctx    context.Context
	report func(Progress)
	now    Progress
	told   int64
}

// meterStep is how many bytes are read from one report to the next.
const meterStep = 1 << 20

func NewMeter(ctx context.Context, report func(Progress)) *Meter {
	return &Meter{ctx: ctx, report: report, told: -meterStep}
}

// Record counts one record.
func (m *Meter) Record() { m.now.Records++ }

func (m *Meter) read(n int) error {
	m.now.Read += int64(n)
	if m.report != nil && m.now.Read-m.told >= meterStep {
		m.told = m.now.Read
		m.report(m.now)
	}
	return m.ctx.Err()
}

// Done makes the last report.
func (m *Meter) Done() {
	if m.report != nil {
		m.report(m.now)
	}
}

// metered is a reader whose bytes are counted.
type metered struct {
	io.Reader
	m *Meter
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
	m *Meter
}

type meteredFile struct {
	fs.File
	r metered
}

func (f meteredFile) Read(b []byte) (int, error) { return f.r.Read(b) }

// Below returns the files below a directory of the system; what is read of them is counted.
func (m *Meter) Below(dir string) fs.FS { return meteredFS{os.DirFS(dir), m} }

func (d meteredFS) Open(name string) (fs.File, error) {
	f, err := d.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return meteredFile{f, metered{f, d.m}}, nil
}

func (d meteredFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(d.FS, name) }

// Expect adds the sizes of files to what there is to read.
func (m *Meter) Expect(dir fs.FS, names []string) {
	for _, name := range names {
		if info, err := fs.Stat(dir, name); err == nil {
			m.now.Total += info.Size()
		}
	}
}

// WithFile opens a file of the system, unpacks it if its name ends in .gz, and has
// it read.
func (m *Meter) WithFile(name string, read func(r io.Reader) error) error {
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
	m.Expect(files, []string{base})
	return Open(files, base, func(r io.Reader) error {
		if err := read(r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// WithDirectory has all files below a directory of the system read whose names are
// wanted, unpacked as by WithFile, in their order; what says which they are.
func (m *Meter) WithDirectory(name string, wanted func(name string) bool, what string, read func(name string, r io.Reader) error) error {
	dir := m.Below(name)
	var files []string
	err := fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && wanted(p) {
			files = append(files, p)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there are no files %s, with .gz or without", what)
	}
	if err != nil {
		return fmt.Errorf("trace: %s: %w", name, err)
	}
	m.Expect(dir, files)
	for _, f := range files {
		if err := Open(dir, f, func(r io.Reader) error { return read(f, r) }); err != nil {
			return fmt.Errorf("%s: %w", path.Join(name, f), err)
		}
	}
	return nil
}

// Open opens a file, unpacks it if its name ends in .gz, and has it read.
func Open(dir fs.FS, name string, read func(r io.Reader) error) error {
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

// Progress is how far the reading of a trace has come.
type Progress struct {
	// Read are the bytes read, as they are stored, of Total; 0: not known.
	Read, Total int64
	// Records are the lines, events, jobs or containers read.
	Records int64
}
