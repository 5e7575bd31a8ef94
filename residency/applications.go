package residency

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"headrace"
	"headrace/internal/delta"
)

// App names an application. Owners do not see or hinder each other's.
type App struct{ Owner, Name string }

func (a App) String() string { return a.Name + " of " + a.Owner }

// app is an application that has registered.
type app struct {
	blocks map[*block]struct{}
	log    *delta.Log[*block]
	seen   time.Time
}

// maxHosts is how many hosts of a block count; files that all nodes need have more replicas
// than are worth watching.
const maxHosts = 16

// Add registers further blocks that an application is interested in, and the application if it
// is not known. Of a block that is registered already the hosts are replaced, and where it is
// in memory is told again. It fails with budget.ErrOver, and has added nothing then. Nothing
// of blocks is kept.
func (m *Map) Add(id App, blocks []headrace.Block, now time.Time) error {
	a := m.apps[id]
	fresh := map[key]struct{}{}
	for i := range blocks {
		if k := keyOf(blocks[i].ID); a == nil || !a.has(m.blocks[k]) {
			fresh[k] = struct{}{}
		}
	}
	var had int64
	n := int64(len(fresh))
	if a != nil {
		had = int64(len(a.blocks)) + 1
	} else {
		n++
	}
	err := m.quota.Take(id.Owner, had, n)
	if err == nil && a == nil {
		if err = m.many.Take(id.Owner, 0, 1); err != nil {
			m.quota.Give(id.Owner, n)
		}
	}
	if err != nil {
		return fmt.Errorf("application %s registers %d blocks: %w", id, len(blocks), err)
	}
	if a == nil {
		a = &app{blocks: map[*block]struct{}{}, log: delta.New[*block](m.number())}
		m.apps[id] = a
	}
	a.seen = now
	for i := range blocks {
		m.want(id.Owner, a, &blocks[i])
	}
	return nil
}

func (a *app) has(b *block) bool {
	_, ok := a.blocks[b]
	return b != nil && ok
}

// want registers one block.
func (m *Map) want(owner string, a *app, of *headrace.Block) {
	hosts := make([]*host, 0, min(len(of.Hosts), maxHosts))
	for _, name := range of.Hosts[:min(len(of.Hosts), maxHosts)] {
		if h := m.named(owner, name); h != nil && !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	k := keyOf(of.ID)
	old := m.blocks[k]
	b := m.attach(k, a, hosts)
	if a.has(old) {
		m.detach(b, b.of(a)) // the older one is found first
	}
	a.blocks[b] = struct{}{}
	if len(b.at) > 0 {
		a.log.Touch(b) // also to whom it was told before: that may have been dropped and forgotten meanwhile
	}
}

// of finds the interest of an application.
func (b *block) of(a *app) int {
	return slices.IndexFunc(b.interests, func(i interest) bool { return i.app == a })
}

// Drop ends the interest of an application in some blocks, such as those that it has read. It
// fails with ErrUnknown.
func (m *Map) Drop(id App, blocks []headrace.BlockID, now time.Time) error {
	a, err := m.app(id, now)
	if err != nil {
		return err
	}
	for _, one := range blocks {
		if b := m.blocks[keyOf(one)]; a.has(b) {
			m.leave(id, a, b)
		}
	}
	return nil
}

// Registered returns the blocks of an application, as a list of the caller's. Who registers anew
// drops those of them that are not wanted any more: both may be long lists, and are dealt with in
// parts.
func (m *Map) Registered(id App) []headrace.BlockID {
	a := m.apps[id]
	if a == nil {
		return nil
	}
	all := make([]headrace.BlockID, 0, len(a.blocks))
	for b := range a.blocks {
		all = append(all, b.id())
	}
	return all
}

// leave ends the interest of an application in a block.
func (m *Map) leave(id App, a *app, b *block) {
	delete(a.blocks, b)
	m.detach(b, b.of(a))
	m.quota.Give(id.Owner, 1)
}

// Forget takes an application out that has ended. It is not known from now on; its blocks are
// forgotten by Tidy. It does nothing if it is not known.
func (m *Map) Forget(id App) {
	if a := m.apps[id]; a != nil {
		delete(m.apps, id)
		m.ended = append(m.ended, ended{id, a})
	}
}

// ended is an application that is not known any more, and has blocks yet.
type ended struct {
	id  App
	app *app
}

// Tidy forgets so many blocks of applications that have ended, and reports whether there are more.
// Until then they count as their owner's.
func (m *Map) Tidy(blocks int) (more bool) {
	for ; len(m.ended) > 0; m.ended = m.ended[1:] {
		e := m.ended[0]
		for b := range e.app.blocks {
			if blocks--; blocks < 0 {
				return true
			}
			m.leave(e.id, e.app, b)
		}
		m.quota.Give(e.id.Owner, 1)
		m.many.Give(e.id.Owner, 1)
	}
	m.ended = nil
	return false
}

// Look forgets the applications that have stayed away, and returns them.
func (m *Map) Look(now time.Time) (forgotten []App) {
	for id, a := range m.apps {
		if now.Sub(a.seen) > m.cfg.Forget {
			m.Forget(id)
			forgotten = append(forgotten, id)
		}
	}
	return forgotten
}

func (m *Map) app(id App, now time.Time) (*app, error) {
	a := m.apps[id]
	if a == nil {
		return nil, fmt.Errorf("application %s: %w", id, ErrUnknown)
	}
	a.seen = now
	return a, nil
}

// Change is where a block is in memory now: all nodes that have some of it.
type Change struct {
	Block headrace.BlockID
	At    []At
}

// Update is what an application is told.
type Update struct {
	Version uint64
	// Full: the application forgets all that it knew first. It is not told of blocks
	// that are in memory nowhere.
	Full    bool
	Changes []Change
}

// Changes tells an application what has changed since the answer with that version for the
// blocks that it has registered, at most so many blocks at a time: it asks again until it gets
// none. It fails with ErrUnknown.
func (m *Map) Changes(id App, since uint64, most int, now time.Time) (Update, error) {
	a, err := m.app(id, now)
	if err != nil {
		return Update{}, err
	}
	next, blocks, full := a.log.Since(since, most, a.resident())
	u := Update{Version: next, Full: full, Changes: make([]Change, 0, len(blocks))}
	for _, b := range blocks {
		if a.has(b) {
			u.Changes = append(u.Changes, Change{b.id(), b.where()})
		}
	}
	return u, nil
}

// resident are the blocks of an application of which some is in memory.
func (a *app) resident() iter.Seq[*block] {
	return func(yield func(*block) bool) {
		for b := range a.blocks {
			if len(b.at) > 0 && !yield(b) {
				return
			}
		}
	}
}

// Ready returns what is closed when Changes has something to tell that it has not told. It fails with
// ErrUnknown.
func (m *Map) Ready(id App) (<-chan struct{}, error) {
	a := m.apps[id]
	if a == nil {
		return nil, fmt.Errorf("application %s: %w", id, ErrUnknown)
	}
	return a.log.Ready(), nil
}
