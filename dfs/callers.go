package dfs

import (
	"os/user"
	"slices"
	"sync"
	"time"

	"headrace/meta"
)

// Callers finds out who calls a node: the groups of users, and whether they may do all. It remembers groups as long as HDFS does.
type Callers struct {
	Node *Node
	// Groups returns the groups of a user; nil asks this machine.
	Groups func(user string) []string
	// Trust believes callers of this machine, too, that they are who they say; otherwise the kernel is asked.
	Trust bool

	mu    sync.Mutex
	known map[string]membership
}

// Of is the caller of a name, which Prove has looked at.
func (c *Callers) Of(user string) meta.Caller {
	groups := c.groups(user)
	who := c.Node.Identity
	return meta.Caller{User: user, Groups: groups, Super: user == who.Owner || slices.Contains(groups, who.Group)}
}

type membership struct {
	groups []string
	until  time.Time
}

const (
	groupsTime = 5 * time.Minute // hadoop.security.groups.cache.secs
	mostKnown  = 10_000
)

func (c *Callers) groups(name string) []string {
	c.mu.Lock()
	m, ok := c.known[name]
	c.mu.Unlock()
	if ok && time.Now().Before(m.until) {
		return m.groups
	}
	ask := c.Groups
	if ask == nil {
		ask = groupsHere
	}
	m = membership{ask(name), time.Now().Add(groupsTime)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= mostKnown { // names are whatever callers say
		c.known = map[string]membership{}
	}
	c.known[name] = m
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
