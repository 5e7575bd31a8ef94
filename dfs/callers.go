package dfs

import (
	"errors"
	"slices"
	"sync"
	"time"

	"headrace/internal/accounts"
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
	groupsTime = 5 * time.Minute  // hadoop.security.groups.cache.secs
	silentTime = 10 * time.Second // until they are asked for again that could not be
	mostKnown  = 10_000
)

func (c *Callers) groups(name string) []string {
	c.mu.Lock()
	m, ok := c.known[name]
	c.mu.Unlock()
	if ok && time.Now().Before(m.until) {
		return m.groups
	}
	if c.Groups != nil {
		m = membership{c.Groups(name), time.Now().Add(groupsTime)}
	} else if groups, err := groupsOf(accounts.Here, name); err == nil {
		m = membership{groups, time.Now().Add(groupsTime)}
	} else {
		m.until = time.Now().Add(silentTime) // with the groups of before; who never had any has none
		if c.Node != nil {
			c.Node.Config.Log.Warn("the groups of a caller cannot be looked up: those of before count, or none", "user", name, "err", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= mostKnown { // names are whatever callers say
		c.known = map[string]membership{}
	}
	c.known[name] = m
	return m.groups
}

// groupsOf asks a machine. A user that it does not know is in no group.
func groupsOf(db *accounts.Database, name string) ([]string, error) {
	u, err := db.User(name)
	if errors.Is(err, accounts.ErrUnknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids, err := db.GroupsOf(u)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, id := range ids {
		switch g, err := db.GroupOf(id); {
		case err == nil:
			names = append(names, g)
		case !errors.Is(err, accounts.ErrUnknown):
			return nil, err
		}
	}
	return names, nil
}
