package work

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"headrace/internal/linux"
)

// touch fills its memory and then changes a share of its pages each time it is
// told to, for the second checkpoint of checkpoint-preemption, table 3. It is told
// by files: the experiment writes the number of a round to DIR/go, the task answers
// with the same number in DIR/done; round 0 is the filling, and "end" in DIR/go
// makes it read everything back and end.
type touch struct {
	bytes Size
	dir   string
	share float64
	// contiguous changes one region, else the pages are spread evenly.
	contiguous bool
	seed       uint64

	mem     words
	version []uint64
}

func newTouch(fs *flag.FlagSet) work {
	t := &touch{}
	fs.Var(&t.bytes, "bytes", "memory to fill")
	fs.StringVar(&t.dir, "dir", "", "directory of the files go and done")
	fs.Float64Var(&t.share, "share", 0.1, "of the pages to change each round")
	fs.BoolVar(&t.contiguous, "contiguous", false, "change one region instead of pages Spread evenly")
	fs.Uint64Var(&t.seed, "seed", 1, "of the content")
	return t
}

func (t *touch) run(m *meter) (uint64, error) {
	if t.dir == "" || t.share < 0 || t.share > 1 {
		return 0, errors.New("want --dir, and a --share from 0 to 1")
	}
	var err error
	if t.mem, err = allocate(int64(t.bytes)); err != nil {
		return 0, err
	}
	t.version = make([]uint64, t.mem.pages())
	for i := range t.version {
		fillPage(t.mem.page(i), pageSeed(t.seed, i, 0))
	}
	for done := 0; ; done++ {
		if err := linux.ReplaceFile(t.doneFile(), []byte(strconv.Itoa(done)), 0o600); err != nil {
			return 0, err
		}
		more, err := t.await(done + 1)
		if err != nil {
			return 0, err
		}
		if !more {
			return t.check()
		}
		t.change(done)
		m.set(1 - 1/float64(done+2))
	}
}

func (t *touch) goFile() string   { return filepath.Join(t.dir, "go") }
func (t *touch) doneFile() string { return filepath.Join(t.dir, "done") }

// await waits until the round is asked for; false means the end.
func (t *touch) await(round int) (bool, error) {
	for {
		text, err := os.ReadFile(t.goFile())
		switch told := strings.TrimSpace(string(text)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		case told == "end":
			return false, nil
		case told == strconv.Itoa(round):
			return true, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (t *touch) change(round int) {
	n := t.mem.pages()
	k := int(float64(n)*t.share + 0.5)
	for j := range k {
		i := (round*k + j) % n
		if !t.contiguous {
			i = int((int64(j)*int64(n)/int64(k) + int64(round)) % int64(n))
		}
		t.version[i]++
		fillPage(t.mem.page(i), pageSeed(t.seed, i, t.version[i]))
	}
}

// check reads everything back.
func (t *touch) check() (uint64, error) {
	want := make([]uint64, pageSize/8)
	var sum uint64
	for i, v := range t.version {
		w := fillPage(want, pageSeed(t.seed, i, v))
		got := sumPage(t.mem.page(i))
		if got != w {
			return 0, fmt.Errorf("page %d came back changed: checksum %016x, version %d has %016x", i, got, v, w)
		}
		sum = fold(sum, got)
	}
	return sum, nil
}
