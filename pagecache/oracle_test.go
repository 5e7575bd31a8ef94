package pagecache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func skipMissing(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// truth asks the kernel about each block.
func truth(t testing.TB, ask cachedFunc, f *os.File) []int64 {
	t.Helper()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var blocks []int64
	for off := int64(0); off < st.Size(); off += BlockSize {
		r := Range{off, min(BlockSize, st.Size()-off)}
		pages, err := ask(int(f.Fd()), off, wholePages(r).Len)
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, min(pages*pageSize, r.Len))
	}
	return blocks
}

// The watched files of an oracle test, and what is done to them.
type oracle struct {
	*testing.T
	*rand.Rand
	dir   string
	below func(name string) string
	ask   cachedFunc
	c     *cache
	files []*subject
	buf   []byte
	log   []string
}

type subject struct {
	*os.File
	w Watched
	// pages is the file that has the pages: the same, but for overlayfs.
	pages *os.File
}

const (
	oracleFiles = 5
	oracleSize  = 2*BlockSize + 9<<20 // as large as files usually get
)

// Whatever is done to files: what is told of them is what the kernel says. Only
// counting is tried here, without the comparison that would mend it.
func TestWatchedAtRandom(t *testing.T) {
	most := 100
	if testing.Short() {
		most = 40
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) {
			dir, steps := p.make(t), most
			for _, method := range []Method{BPF, Cachestat} {
				t.Run(string(method), func(t *testing.T) {
					c := newMethod(t, Config{Method: method})
					o := &oracle{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), below: p.below, c: c, buf: make([]byte, 4<<20)}
					if o.dir = filepath.Join(dir, string(method)); os.Mkdir(o.dir, 0o700) != nil {
						t.Fatal("no directory")
					}
					if o.ask = askKernel; p.below != nil {
						o.ask = askMapping // which leaves out pages without contents, from holes that were made
					}
					t.Cleanup(o.close)
					for i := range oracleFiles {
						o.files = append(o.files, o.create(i))
					}
					if p.slow {
						steps = min(steps, 50)
					}
					for range steps {
						sizes := o.step(o.IntN(oracleFiles))
						if p.mended {
							o.compare(20*oracleFiles, c.mustRefresh)
						} else {
							o.compare(5, func(t testing.TB) { c.refreshOnly(t, sizes) })
						}
					}
					for _, f := range c.list {
						if counted := f.counted != nil; !p.mended && counted != (p.counted && method == BPF) {
							t.Errorf("events of %s are counted: %t", f.name, counted)
						}
					}
				})
			}
		})
	}
}

func (o *oracle) close() {
	for _, f := range o.files {
		f.close()
	}
}

func (s *subject) close() {
	s.w.Close()
	s.Close()
	s.pages.Close()
}

func (o *oracle) create(i int) *subject {
	f, err := os.Create(filepath.Join(o.dir, fmt.Sprint(i)))
	if err != nil {
		o.Fatal(err)
	}
	s := &subject{f, o.watch(f), f}
	if o.below != nil {
		if s.pages, err = os.Open(o.below(f.Name())); err != nil {
			o.Fatal(err)
		}
	}
	return s
}

func (o *oracle) watch(f *os.File) Watched {
	w, err := o.c.Watch(f)
	if err != nil {
		o.Fatal(err)
	}
	return w
}

// somewhere returns a range that begins in the file.
func (o *oracle) somewhere(f *subject) Range {
	st, err := f.Stat()
	if err != nil {
		o.Fatal(err)
	}
	off := o.Int64N(st.Size() + 1)
	if o.IntN(2) == 0 {
		off -= off % pageSize
	}
	return Range{off, o.Int64N(1 << (8 + o.IntN(15)))}
}

// step does something to a file, and reports whether it may have changed its size
// and nothing else.
func (o *oracle) step(i int) (sizeOnly bool) {
	f := o.files[i]
	fd := int(f.Fd())
	r := o.somewhere(f)
	did := ""
	var err error
	switch o.IntN(14) {
	case 0, 1, 2:
		did = "read"
		advice := []int{unix.FADV_NORMAL, unix.FADV_RANDOM, unix.FADV_SEQUENTIAL}[o.IntN(3)]
		unix.Fadvise(fd, 0, 0, advice)
		f.ReadAt(o.buf[:r.Len], r.Off)
	case 3, 4:
		did = "write"
		_, err = f.WriteAt(o.buf[:r.Len], r.Off)
	case 5:
		did, r.Off = "append", max(r.Off, oracleSize/2)
		_, err = f.WriteAt(o.buf[:r.Len], r.Off)
	case 6, 7:
		did = "drop"
		if o.IntN(2) == 0 {
			f.Sync()
		}
		if o.IntN(3) == 0 {
			r = Range{}
		}
		unix.Fadvise(fd, r.Off, r.Len, unix.FADV_DONTNEED)
	case 8:
		did = "truncate"
		err = f.Truncate(r.Off)
	case 9:
		did = "grow"
		err = f.Truncate(o.Int64N(oracleSize))
	case 10:
		did = "punch"
		if r.Len > 0 {
			unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, r.Off, r.Len)
		}
	case 11:
		did = "map"
		o.populate(fd, wholePages(r))
	case 12:
		did = "write past the cache"
		o.direct(f.Name(), wholePages(r))
	case 13:
		did = "replace" // the inode number may come back
		f.close()
		os.Remove(f.Name())
		o.files[i] = o.create(i)
	}
	o.log = append(o.log, fmt.Sprintf("%s %d %v", did, i, r))
	if err != nil {
		o.Fatalf("%s: %v", did, err)
	}
	return slices.Contains([]string{"truncate", "grow", "write", "append", "write past the cache"}, did)
}

// populate has pages mapped, as far as there are any.
func (o *oracle) populate(fd int, r Range) {
	if r.Len == 0 {
		return
	}
	mem, err := unix.Mmap(fd, r.Off, int(r.Len), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		o.Fatal(err)
	}
	unix.Madvise(mem, unix.MADV_POPULATE_READ)
	if err := unix.Munmap(mem); err != nil {
		o.Fatal(err)
	}
}

// direct writes past the page cache, where that is possible.
func (o *oracle) direct(name string, r Range) {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		o.Fatal(err)
	}
	defer unix.Munmap(mem)
	unix.Pwrite(fd, mem[:min(r.Len, int64(len(mem)))], r.Off)
}

// compare compares what is told with the truth. The kernel may take pages away
// at any time: then both are looked at again.
func (o *oracle) compare(tries int, refresh func(testing.TB)) {
	o.Helper()
	for i, f := range o.files {
		var got, want []int64
		for range tries {
			refresh(o)
			want = truth(o, o.ask, f.pages)
			if got = f.w.Blocks(nil); slices.Equal(got, want) {
				break
			}
		}
		var sum int64
		for _, b := range got {
			sum += b
		}
		if !slices.Equal(got, want) || f.w.Resident() != sum {
			o.Fatalf("file %d: blocks %v, %d in all; the kernel says %v, after %q", i, got, f.w.Resident(), want, o.log[max(0, len(o.log)-8):])
		}
	}
}

// While files are first looked at, pages come and go. What that makes wrong is
// mended by the comparison with the kernel.
func TestWatchedWhilePagesComeAndGo(t *testing.T) {
	dir := diskDir(t)
	for _, method := range []Method{BPF, Cachestat} {
		t.Run(string(method), func(t *testing.T) {
			o := &oracle{T: t, Rand: rand.New(rand.NewPCG(1, 2)), ask: askKernel, dir: filepath.Join(dir, string(method)), c: newMethod(t, Config{Method: method}), buf: make([]byte, 4<<20)}
			if err := os.Mkdir(o.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(o.close)
			for i := range oracleFiles {
				o.files = append(o.files, o.create(i))
				if err := o.files[i].Truncate(oracleSize); err != nil {
					t.Fatal(err)
				}
			}
			stop := make(chan bool)
			var users sync.WaitGroup
			for i := range 2 {
				users.Go(func() { use(o.files, rand.New(rand.NewPCG(3, uint64(i))), stop) })
			}
			rounds := 200
			if testing.Short() {
				rounds = 20
			}
			for i := range rounds {
				o.c.mustRefresh(t)
				f := o.files[i%oracleFiles]
				f.w.Close()
				f.w = o.watch(f.File)
			}
			close(stop)
			users.Wait()
			// Time goes by: everything was compared.
			o.compare(20*oracleFiles, o.c.mustRefresh)
		})
	}
}

// use reads and drops until stop is closed.
func use(files []*subject, rnd *rand.Rand, stop chan bool) {
	b := make([]byte, 256<<10)
	for {
		select {
		case <-stop:
			return
		default:
		}
		f := files[rnd.IntN(len(files))]
		off := rnd.Int64N(oracleSize)
		f.ReadAt(b, off)
		if rnd.IntN(4) == 0 {
			unix.Fadvise(int(f.Fd()), rnd.Int64N(oracleSize), rnd.Int64N(BlockSize), unix.FADV_DONTNEED)
		}
	}
}
