package residency

import (
	"errors"
	"slices"
	"time"
	"unique"

	"headrace"
	"headrace/internal/budget"
)

// Kinds of errors; test with errors.Is. A registration beyond the bounds is a budget.ErrOver.
var (
	// ErrUnknown: the application or node is not known, or not any more. It is to
	// register or to join again.
	ErrUnknown = errors.New("not known here; register or join again")
	// ErrStale: the node has joined again since, or it has not told all of its state yet.
	ErrStale = errors.New("not of the node's present session, or its whole state is missing")
)

// Config bounds a Map. 0 is the default.
type Config struct {
	// PerApplication, PerOwner and All are how many blocks an application may register, all
	// applications of an owner together, and all together. An application counts as a block
	// itself. Defaults 500,000, 1,000,000 and 2,000,000.
	PerApplication, PerOwner, All int64
	// OwnerApplications and AllApplications are how many of these there may be: what is done for a block goes over all that
	// are interested in it. Defaults 2000 and 20,000.
	OwnerApplications, AllApplications int64
	// Forget is how long an application may stay away until it is forgotten. Default 10
	// minutes.
	Forget time.Duration
}

// Map is what is in memory where. See the comment of the package.
type Map struct {
	cfg    Config
	first  uint64       // numbers of answers begin here
	quota  budget.Tiers // of blocks
	many   budget.Tiers // applications
	blocks map[key]*block
	apps   map[App]*app
	ended  []ended
	hosts  map[string]*host
	names  budget.Tiers // hosts that only applications have named
	nodes  map[string]*node
	passed int64
}

// New makes an empty Map. It must be given a later time than an earlier one was whose callers
// may still be there.
func New(c Config, now time.Time) *Map {
	defaults := func(n *int64, otherwise int64) {
		if *n == 0 {
			*n = otherwise
		}
	}
	defaults(&c.PerApplication, 500_000)
	defaults(&c.PerOwner, 1_000_000)
	defaults(&c.All, 2_000_000)
	defaults(&c.OwnerApplications, 2000)
	defaults(&c.AllApplications, 20_000)
	if c.Forget == 0 {
		c.Forget = 10 * time.Minute
	}
	return &Map{
		cfg: c, first: uint64(now.UnixMicro()),
		quota:  budget.Tiers{What: "blocks", Each: c.PerApplication, Owner: c.PerOwner, All: c.All},
		many:   budget.Tiers{What: "applications", Owner: c.OwnerApplications, All: c.AllApplications},
		names:  budget.Tiers{What: "names of machines", Owner: perOwnerNames, All: 10 * perOwnerNames},
		blocks: map[key]*block{}, apps: map[App]*app{}, hosts: map[string]*host{}, nodes: map[string]*node{},
	}
}

// perOwnerNames is how many machines that have not joined the applications of an owner may name: twice as many
// as a manager takes nodes.
const perOwnerNames = 20_000

// key is a BlockID that takes little room.
type key struct {
	pool   unique.Handle[string]
	number int64
}

func keyOf(id headrace.BlockID) key { return key{unique.Make(id.Pool), id.Number} }

func (k key) id() headrace.BlockID { return headrace.BlockID{Pool: k.pool.Value(), Number: k.number} }

// block is one that somebody is interested in.
type block struct {
	key
	// interests are few, but for files that everybody reads.
	interests []interest
	at        []copyOf // where some of it is in memory
}

// interest is that of an application in a block. Interests of one block share their hosts if
// these are the same.
type interest struct {
	app   *app // nil: the block is held
	hosts []*host
}

// copyOf is what is in memory of a replica.
type copyOf struct {
	node            *node
	resident, bytes int64
}

// host is a name of a machine in the file system.
type host struct {
	name string
	node *node // nil: none has joined that has this name
	// by is whose applications have named it first, and counts it; nil: it has joined.
	by *string
	// watch are the blocks of which it may have replicas.
	watch map[*block]struct{}
}

// At is a node with some of a block in memory.
type At struct {
	Node string
	// Resident bytes of the replica's Bytes are in memory.
	Resident, Bytes int64
}

// Where returns where a block is in memory, as far as it is watched.
func (m *Map) Where(id headrace.BlockID) []At {
	if b := m.blocks[keyOf(id)]; b != nil {
		return b.where()
	}
	return nil
}

func (b *block) where() []At {
	all := make([]At, len(b.at))
	for i, c := range b.at {
		all[i] = At{c.node.name, c.resident, c.bytes}
	}
	return all
}

// names reports whether somebody who is interested says that the host has a replica.
func (b *block) names(h *host) bool {
	return slices.ContainsFunc(b.interests, func(i interest) bool { return slices.Contains(i.hosts, h) })
}

// set enters how much of a block is in memory on a node, and tells those interested.
func (b *block) set(n *node, resident, bytes int64) {
	i := slices.IndexFunc(b.at, func(c copyOf) bool { return c.node == n })
	switch {
	case i < 0 && resident == 0, i >= 0 && b.at[i] == copyOf{n, resident, bytes}:
		return
	case i < 0:
		b.at = append(b.at, copyOf{n, resident, bytes})
	case resident == 0:
		b.at = slices.Delete(b.at, i, i+1)
	default:
		b.at[i] = copyOf{n, resident, bytes}
	}
	for _, i := range b.interests {
		if i.app != nil {
			i.app.log.Touch(b)
		}
	}
}

// host returns the host of that name, which is made if there is none.
func (m *Map) host(name string) *host {
	h := m.hosts[name]
	if h == nil {
		h = &host{name: name, watch: map[*block]struct{}{}}
		m.hosts[name] = h
	}
	return h
}

// named returns the host that an application of an owner names; nil: nobody knows it, and the owner may not name
// further ones.
func (m *Map) named(owner, name string) *host {
	if h := m.hosts[name]; h != nil {
		return h
	}
	if m.names.Take(owner, 0, 1) != nil {
		return nil
	}
	h := m.host(name)
	h.by = &owner
	return h
}

// tidy forgets a host that nobody needs.
func (m *Map) tidy(h *host) {
	if len(h.watch) == 0 && h.node == nil {
		delete(m.hosts, h.name)
		if h.by != nil {
			m.names.Give(*h.by, 1)
		}
	}
}

// attach adds an interest.
func (m *Map) attach(id key, a *app, hosts []*host) *block {
	b := m.blocks[id]
	if b == nil {
		b = &block{key: id}
		m.blocks[id] = b
	}
	for _, i := range b.interests {
		if slices.Equal(i.hosts, hosts) {
			hosts = i.hosts
			break
		}
	}
	b.interests = append(b.interests, interest{a, hosts})
	for _, h := range hosts {
		if _, watched := h.watch[b]; !watched {
			h.watch[b] = struct{}{}
			if h.node != nil {
				h.node.log.Touch(b.key)
			}
		}
	}
	return b
}

// detach takes an interest away, and all that nobody else needs.
func (m *Map) detach(b *block, i int) {
	hosts := b.interests[i].hosts
	b.interests = slices.Delete(b.interests, i, i+1)
	for _, h := range hosts {
		if b.names(h) {
			continue
		}
		delete(h.watch, b)
		if n := h.node; n != nil {
			n.log.Touch(b.key)
			if !n.watches(b) {
				b.set(n, 0, 0)
			}
		}
		m.tidy(h)
	}
	if len(b.interests) == 0 {
		delete(m.blocks, b.key)
	}
}

// Hold has the nodes with these names watch a block, as an application would that is interested in it, until it is
// released. The names replace those with which it was held before. It is meant for what is warmed; the caller bounds how much.
func (m *Map) Hold(id headrace.BlockID, names []string) {
	var hosts []*host
	for _, name := range names[:min(len(names), maxHosts)] {
		hosts = append(hosts, m.host(name))
	}
	b := m.attach(keyOf(id), nil, hosts)
	if i := b.of(nil); i < len(b.interests)-1 { // the older one is found first
		m.detach(b, i)
	}
}

// Release ends a Hold. It does nothing if there is none.
func (m *Map) Release(id headrace.BlockID) {
	if b := m.blocks[keyOf(id)]; b != nil {
		if i := b.of(nil); i >= 0 {
			m.detach(b, i)
		}
	}
}

// On returns how many bytes of a block are in a node's memory, as far as it is watched.
func (m *Map) On(node string, id headrace.BlockID) int64 {
	if b := m.blocks[keyOf(id)]; b != nil {
		for _, c := range b.at {
			if c.node.name == node {
				return c.resident
			}
		}
	}
	return 0
}

// Totals are for metrics.
type Totals struct {
	Nodes, Applications, Owners int
	// Blocks are those that somebody is interested in, Interests how often; an application
	// counts as one itself.
	Blocks    int
	Interests int64
	// Passed is how many reports were of blocks that their node need not watch.
	Passed int64
}

// Totals returns what there is.
func (m *Map) Totals() Totals {
	all, owners := m.quota.Taken()
	return Totals{len(m.nodes), len(m.apps), owners, len(m.blocks), all, m.passed}
}

// number returns one above which no reader has seen any.
func (m *Map) number() uint64 {
	m.first += 1 << 20
	return m.first
}
