package presence

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
)

// Patience is how long a file system may take to answer; that of a store may be on
// a network.
const Patience = 10 * time.Second

// Stores are the stores of one daemon, by directory. The zero value knows none. It is safe for concurrent use.
type Stores struct {
	// Owner is whose the stores are to be. It is set before they are looked for.
	Owner checkpoint.Owner

	mu    sync.Mutex
	known map[string]mark // by directory
	// asked are questions that file systems have not answered yet.
	asked singleflight.Group
}

type mark struct {
	// id is that of the store (checkpoint.ID); empty: it has never had one.
	id string
	// away is why it cannot be used now; nil: it can.
	away error
}

// Known is what earlier looks at a store have found.
type Known struct {
	// ID is that of the store (checkpoint.ID); empty: it is not known.
	ID string
	// InMemory: what is in it does not outlive the machine.
	InMemory bool
}

// Set takes in that the store in a directory has an id, and why it cannot be used now; nil: it can.
func (m *Stores) Set(dir, id string, away error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[string]mark{}
	}
	m.known[dir] = mark{id, away}
}

func (m *Stores) get(dir string) mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[dir]
}

// ID returns that of a store, as was set last; empty: it has never had one.
func (m *Stores) ID(dir string) string { return m.get(dir).id }

// Away returns why a store cannot be used now, as was set last; nil: it can.
func (m *Stores) Away(dir string) error { return m.get(dir).away }

// There looks at stores, and returns why nothing may be read, written or removed in one
// of them now: proc.ErrNotNow. It may block for Patience each.
func (m *Stores) There(ctx context.Context, dirs ...string) error {
	for _, dir := range dirs {
		k := m.get(dir)
		if k.away != nil {
			return k.away
		}
		if k.id == "" {
			continue
		}
		id, err := m.Ask(ctx, dir, func() (any, error) {
			id, err := checkpoint.ID(dir)
			if err == nil {
				err = m.owned(dir)
			}
			return id, err
		})
		if err == nil && id != k.id {
			err = fs.ErrNotExist
		}
		if err != nil {
			return Unusable(dir, err)
		}
	}
	return nil
}

// Unusable returns why a store cannot be used now of which a look has failed, as it may at any point of it: proc.ErrNotNow.
func Unusable(dir string, err error) error {
	switch {
	case errors.Is(err, proc.ErrNotNow):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return notThere(dir)
	}
	return fmt.Errorf("%w: checkpoint store %s: %w", proc.ErrNotNow, dir, err)
}

// Ask asks a file system that may not answer, for Patience at most. An earlier question with the key that is
// still open is not asked again: its answer is waited for.
func (m *Stores) Ask(ctx context.Context, key string, ask func() (any, error)) (any, error) {
	select {
	case r := <-m.asked.DoChan(key, ask):
		return r.Val, r.Err
	case <-time.After(Patience):
		return nil, fmt.Errorf("no answer within %v", Patience)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// owned returns why what is in a store is another daemon's, or to be left alone now: proc.ErrNotNow.
func (m *Stores) owned(dir string) error {
	return foreign(checkpoint.Owned(dir, m.Owner))
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

// Find returns the id of the store in a directory, of which is known what an earlier
// look has found, and makes it this daemon's. A store that is not there is made only if nothing is missing then:
// had are the tasks that have left something in it. The error is proc.ErrNotNow where something would be, or it is
// another daemon's. It may block for long.
func (m *Stores) Find(dir string, known Known, had []headrace.TaskID) (string, error) {
	if id, sure, err := m.Recognize(dir, known); sure {
		return id, err
	}
	switch {
	case len(had) == 0 || known.InMemory:
	case known.ID == "" && (hasAny(dir, had) || InMemory(dir)): // a daemon that knew no marks has used it
	default:
		return "", notThere(dir)
	}
	if _, err := checkpoint.Open(dir, checkpoint.Options{}); err != nil {
		return "", err
	}
	if err := foreign(checkpoint.Claim(dir, m.Owner)); err != nil { // before anybody marks it
		return "", err
	}
	return checkpoint.Mark(dir)
}

// Recognize is Find as far as it does not matter who has left something in the store; sure tells
// whether it does not.
func (m *Stores) Recognize(dir string, known Known) (id string, sure bool, err error) {
	id, err = checkpoint.Recognize(dir, known.ID, m.Owner) // those of older versions are nobody's yet
	if errors.Is(err, fs.ErrNotExist) || err == nil && known.ID != "" && id != known.ID {
		return "", false, nil
	}
	return id, true, foreign(err)
}

func hasAny(dir string, tasks []headrace.TaskID) bool {
	for _, id := range tasks {
		if _, err := os.Stat(filepath.Join(dir, string(id))); err == nil {
			return true
		}
	}
	return false
}

// InMemory tells whether what is in a directory, or would be, does not outlive the
// machine.
func InMemory(dir string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	for err != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &st)
	}
	return err == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}
