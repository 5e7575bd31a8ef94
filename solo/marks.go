package solo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"headrace"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/solo/journal"
)

// marks tell whether a store is the one that it was, or only the directory that its file
// system is mounted on. What is in a store that is not there is not gone, and nothing
// is to be written in its place. They may be used from anywhere.
type marks struct {
	// owner is whose the stores are to be.
	owner  checkpoint.Owner
	mu     sync.Mutex
	marked map[string]mark // by directory
	// asked are questions that file systems have not answered yet.
	asked singleflight.Group
}

type mark struct {
	// id is that of the store (checkpoint.ID); empty: it has never had one.
	id string
	// away is why it cannot be used now; nil: it can.
	away error
}

func (m *marks) set(dir string, k mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marked == nil {
		m.marked = map[string]mark{}
	}
	m.marked[dir] = k
}

func (m *marks) get(dir string) mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marked[dir]
}

// there looks at stores, and returns why nothing may be read, written or removed in one
// of them now: proc.ErrNotNow.
func (m *marks) there(ctx context.Context, dirs ...string) error {
	for _, dir := range dirs {
		k := m.get(dir)
		if k.away != nil {
			return k.away
		}
		if k.id == "" {
			continue
		}
		id, err := m.soon(ctx, dir, func() (any, error) {
			id, err := checkpoint.ID(dir)
			if err == nil {
				err = m.owned(dir)
			}
			return id, err
		})
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && id != k.id:
			return notThere(dir)
		case err != nil:
			return fmt.Errorf("%w: checkpoint store %s: %w", proc.ErrNotNow, dir, err)
		}
	}
	return nil
}

// soon asks a file system that may not answer. An earlier question with the key that is
// still open is not asked again: its answer is waited for.
func (m *marks) soon(ctx context.Context, key string, ask func() (any, error)) (any, error) {
	select {
	case r := <-m.asked.DoChan(key, ask):
		return r.Val, r.Err
	case <-time.After(storePatience):
		return nil, fmt.Errorf("no answer within %v", storePatience)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// owned returns why what is in a store is another daemon's, or to be left alone now: proc.ErrNotNow.
func (m *marks) owned(dir string) error {
	return foreign(checkpoint.Owned(dir, m.owner))
}

// foreign has what is in another daemon's store wait: that is not damaged, and not this one's to touch.
func foreign(err error) error {
	if errors.Is(err, checkpoint.ErrForeign) {
		return fmt.Errorf("%w: %w", proc.ErrNotNow, err)
	}
	return err
}

func notThere(dir string) error {
	return fmt.Errorf("%w: what was in the checkpoint store %s is not there: is its file system mounted? If it is lost, start the daemon once with --new-store %[2]s",
		proc.ErrNotNow, dir)
}

// find returns the id of the store in a directory, of which is known what an earlier
// look has found. A store that is not there is made only if nothing is missing then:
// had are the tasks that have left something in it.
func (m *marks) find(dir string, known journal.Measure, had []headrace.TaskID) (string, error) {
	if id, sure, err := m.recognize(dir, known); sure {
		return id, err
	}
	switch {
	case len(had) == 0 || known.InMemory:
	case known.ID == "" && (hasAny(dir, had) || volatile(dir)): // a daemon that knew no marks has used it
	default:
		return "", notThere(dir)
	}
	if _, err := checkpoint.Open(dir, checkpoint.Options{}); err != nil {
		return "", err
	}
	if err := foreign(checkpoint.Claim(dir, m.owner)); err != nil { // before anybody marks it
		return "", err
	}
	return checkpoint.Mark(dir)
}

// recognize is find as far as it does not matter who has left something in the store; sure tells
// whether it does not.
func (m *marks) recognize(dir string, known journal.Measure) (id string, sure bool, err error) {
	id, err = checkpoint.ID(dir)
	switch {
	case err == nil && (known.ID == "" || id == known.ID):
		return id, true, foreign(checkpoint.Claim(dir, m.owner)) // those of older versions are nobody's yet
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", true, err
	}
	return "", false, nil
}

func hasAny(dir string, tasks []headrace.TaskID) bool {
	for _, id := range tasks {
		if _, err := os.Stat(filepath.Join(dir, string(id))); err == nil {
			return true
		}
	}
	return false
}

// volatile tells whether what is in a directory, or would be, does not outlive the
// machine.
func volatile(dir string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	for err != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &st)
	}
	return err == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}
