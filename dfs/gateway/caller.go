package gateway

import (
	"os/user"
	"slices"
	"sync"
	"time"

	"headrace/hdfs/ipc"
	"headrace/meta"
)

// caller is who calls, with its groups.
func (g *Gateway) caller(u ipc.User) meta.Caller {
	groups := g.groups.of(u.Name)
	who := g.node.Identity
	return meta.Caller{User: u.Name, Groups: groups, Super: u.Name == who.Owner || slices.Contains(groups, who.Group)}
}

// groups remembers the groups of users, as long as HDFS does.
type groups struct {
	ask func(string) []string

	mu    sync.Mutex
	known map[string]membership
}

type membership struct {
	groups []string
	until  time.Time
}

const (
	groupsTime = 5 * time.Minute // hadoop.security.groups.cache.secs
	mostKnown  = 10_000
)

func (g *groups) of(name string) []string {
	g.mu.Lock()
	m, ok := g.known[name]
	g.mu.Unlock()
	if ok && time.Now().Before(m.until) {
		return m.groups
	}
	ask := g.ask
	if ask == nil {
		ask = groupsHere
	}
	m = membership{ask(name), time.Now().Add(groupsTime)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= mostKnown { // names are whatever callers say
		g.known = map[string]membership{}
	}
	g.known[name] = m
	return m.groups
}

// groupsHere asks this machine. A user that it does not know is in no group.
func groupsHere(name string) []string {
	u, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var names []string
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil {
			names = append(names, g.Name)
		}
	}
	return names
}
