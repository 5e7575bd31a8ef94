package work

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"headrace/proc"
)

// meterEvery is how often a workload tells its share at most.
const meterEvery = 20 * time.Millisecond

// A mark is a file to be made once a share of the work is done. It is how an
// experiment learns of the moment without sampling.
type mark struct {
	share float64
	path  string
}

// parseMark reads SHARE:FILE.
func parseMark(s string) (mark, error) {
	share, path, ok := strings.Cut(s, ":")
	v, err := strconv.ParseFloat(share, 64)
	if !ok || err != nil || v < 0 || v > 1 || path == "" {
		return mark{}, fmt.Errorf("mark %q: want SHARE:FILE with a share from 0 to 1", s)
	}
	return mark{share: v, path: path}, nil
}

// meter tells how much of a workload is done: to the daemon through the file
// that it names in the environment, and to the experiment by marks and by an account. It
// keeps no file open, so that a checkpoint never depends on one.
type meter struct {
	path    string
	marks   []mark
	account account
	last    time.Time
	err     error
}

func newMeter(marks []mark) *meter {
	return &meter{path: os.Getenv(proc.ProgressEnv), marks: marks}
}

// set tells the share done, 0 to 1. It is cheap enough for an inner loop of
// milliseconds. The first error is kept for close.
func (m *meter) set(share float64) {
	m.marks = slices.DeleteFunc(m.marks, func(k mark) bool {
		if share < k.share {
			return false
		}
		m.keep(os.WriteFile(k.path, nil, 0o600))
		return true
	})
	m.keep(m.account.set(share))
	if m.path == "" {
		return
	}
	now := time.Now()
	if share < 1 && now.Sub(m.last) < meterEvery {
		return
	}
	m.last = now
	m.keep(overwrite(m.path, fmt.Sprintf("%.4f\n", share)))
}

// close tells that all is done and returns the first error of any call.
func (m *meter) close() error {
	m.set(1)
	return m.err
}

func (m *meter) keep(err error) {
	if err != nil {
		m.err = errors.Join(m.err, fmt.Errorf("tell the progress: %w", err))
		m.path, m.account.path = "", ""
	}
}

// overwrite replaces the content in place: a reader never finds the file empty.
// Every text that is written to one file has the same length.
func overwrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
