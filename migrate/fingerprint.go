package migrate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// maxHashed is the size up to which files are compared by their contents.
const maxHashed = 256 << 20

// Fingerprint is what must be alike on two machines for a restore to be safe.
type Fingerprint struct {
	Arch     string   `json:"arch"`
	PageSize int      `json:"page_size"`
	CPU      string   `json:"cpu"` // vendor
	Flags    []string `json:"flags"`
	Kernel   string   `json:"kernel"` // release
	CRIU     string   `json:"criu"`
	// Files are what the processes have mapped or open and is not carried along. The headrace-shim that the task
	// runs under is one of them.
	Files []FileID `json:"files,omitempty"`
}

// FileID says which file is at a path.
type FileID struct {
	Path  string    `json:"path"`
	Size  int64     `json:"size"`
	MTime time.Time `json:"mtime"`
	// Sum is the SHA-256 of the contents, of files up to 256 MB. Files with a sum are
	// compared by it, whatever their time is; others by size and time.
	Sum string `json:"sum,omitempty"`
	// Err says why it could not be read, on the machine where it was looked at.
	Err string `json:"err,omitempty"`
}

// An Observer looks at machines and files. It remembers hashes of files that have
// not changed. Use one for the life of a process; safe for concurrent use.
type Observer struct {
	CRIU func(ctx context.Context) (version string, err error) // now; empty: there is none

	cache sumCache
}

// Machine returns the fingerprint of this machine, without files of a task.
func (o *Observer) Machine(ctx context.Context) (Fingerprint, error) {
	cpu, err := linux.ProcFS("").Processor()
	if err != nil {
		return Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
	}
	version, err := o.CRIU(ctx)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
	}
	f := Fingerprint{
		Arch: runtime.GOARCH, PageSize: os.Getpagesize(), Kernel: unix.ByteSliceToString(uts.Release[:]), CRIU: version,
		CPU: cpu.Vendor, Flags: cpu.Flags,
	}
	return f, ctx.Err()
}

// AddFiles adds files that must be on the other machine, looked at with the rights
// of this thread. A file that cannot be read is an error.
func (f *Fingerprint) AddFiles(ctx context.Context, o *Observer, paths []string) error {
	have := make(map[string]bool, len(f.Files))
	for _, id := range f.Files {
		have[id.Path] = true
	}
	for _, p := range paths {
		if have[p] {
			continue
		}
		have[p] = true
		id := o.Identify(ctx, p)
		if id.Err != "" {
			return fmt.Errorf("%s must be on the other machine too, and cannot be looked at: %s", p, id.Err)
		}
		f.Files = append(f.Files, id)
	}
	slices.SortFunc(f.Files, func(a, b FileID) int { return strings.Compare(a.Path, b.Path) })
	return ctx.Err()
}

// Here adds to the fingerprint of this machine the files of f, to be compared with f. Files are
// looked at inside as, which runs what it gets with the rights of the task's user: the paths are that user's to choose.
func (f Fingerprint) Here(ctx context.Context, o *Observer, here Fingerprint, as func(func() error) error) (Fingerprint, error) {
	err := as(func() error {
		for _, id := range f.Files {
			here.Files = append(here.Files, o.Identify(ctx, id.Path))
		}
		return ctx.Err()
	})
	return here, err
}

// Identify says which file is at a path. Of what is not a regular file only the
// kind counts.
func (o *Observer) Identify(ctx context.Context, path string) FileID {
	id, err := o.identify(ctx, path)
	if err != nil {
		id.Err = reason(err)
	}
	return id
}

func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it does not exist"
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func (o *Observer) identify(ctx context.Context, path string) (FileID, error) {
	id := FileID{Path: path}
	st, err := os.Stat(path)
	if err != nil {
		return id, err
	}
	if !st.Mode().IsRegular() {
		id.Sum = st.Mode().Type().String()
		return id, nil
	}
	f, err := linux.OpenRegular(resolved(path), os.O_RDONLY)
	if err != nil {
		return id, err
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil {
		return id, err
	}
	id.Size, id.MTime = st.Size(), st.ModTime().UTC()
	if id.Size <= maxHashed {
		id.Sum, err = o.cache.sum(ctx, f)
	}
	return id, err
}

// Compare says what keeps a task of the fingerprint f from being restored on a
// machine that is as here; nothing, if nothing does. Processor flags and kernel of
// the machine may be more than is needed.
func (f Fingerprint) Compare(here Fingerprint) []string {
	var diff []string
	unequal := func(what, want, have string) {
		if want != have {
			diff = append(diff, fmt.Sprintf("%s is %s here, and was %s", what, orNone(have), orNone(want)))
		}
	}
	unequal("the architecture", f.Arch, here.Arch)
	unequal("the size of a page", strconv.Itoa(f.PageSize), strconv.Itoa(here.PageSize))
	unequal("the processor's vendor", f.CPU, here.CPU)
	if missing := (linux.Processor{Flags: here.Flags}).Lacks(f.Flags); len(missing) > 0 {
		diff = append(diff, "the processor here lacks "+strings.Join(missing, ", "))
	}
	if older(here.Kernel, f.Kernel) {
		diff = append(diff, fmt.Sprintf("the kernel here is %s, older than %s", orNone(here.Kernel), orNone(f.Kernel)))
	}
	unequal("CRIU", f.CRIU, here.CRIU)
	have := make(map[string]FileID, len(here.Files))
	for _, id := range here.Files {
		have[id.Path] = id
	}
	for _, id := range f.Files {
		diff = append(diff, id.differs(have[id.Path])...)
	}
	return diff
}

func (f FileID) differs(here FileID) []string {
	switch {
	case here.Path == "":
		return []string{f.Path + " was not looked at here"}
	case here.Err != "":
		return []string{f.Path + " cannot be used here: " + here.Err}
	case f.Size != here.Size:
		return []string{fmt.Sprintf("%s has %d bytes here, and had %d", f.Path, here.Size, f.Size)}
	case f.Sum != here.Sum:
		return []string{f.Path + " has other contents here"}
	case f.Sum == "" && !f.MTime.Equal(here.MTime):
		return []string{fmt.Sprintf("%s is of %v here, and was of %v", f.Path, here.MTime, f.MTime)}
	}
	return nil
}

func orNone(s string) string { return cmp.Or(s, "unknown") }

// older compares major and minor versions of kernels. A release that cannot be read
// is older than any, unless both are the same.
func older(here, want string) bool {
	if here == want {
		return false
	}
	h, herr := majorMinor(here)
	w, werr := majorMinor(want)
	return herr != nil || werr != nil || slices.Compare(h[:], w[:]) < 0
}

func majorMinor(release string) (v [2]int, err error) {
	if n, err := fmt.Sscanf(release, "%d.%d", &v[0], &v[1]); n != 2 {
		return v, fmt.Errorf("kernel release %q: %w", release, err)
	}
	return v, nil
}

// hashFile returns the SHA-256 of a file.
func hashFile(ctx context.Context, f *os.File) (string, error) {
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
