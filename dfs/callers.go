package dfs

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"headrace/internal/accounts"
	"headrace/meta"
)

// Callers finds out who calls a node: the groups of users, and whether they may do all. It remembers nothing: package accounts
// does, and to find out anew costs 8 µs of a processor (BenchmarkCaller there), most of it to see that three files are the same.
type Callers struct {
	Node *Node
	// Groups returns the groups of a user; nil asks Accounts, which are those of this machine if it is nil.
	Groups   func(user string) []string
	Accounts *accounts.Database
	// Trust believes callers of this machine, too, that they are who they say; otherwise the kernel is asked.
	Trust bool

	mu sync.Mutex
	// said is when it was said last that groups cannot be looked up.
	said time.Time
}

// Of is the caller of a name, which Prove has looked at.
func (c *Callers) Of(user string) meta.Caller {
	groups := c.groups(user)
	who := c.Node.Identity
	return meta.Caller{User: user, Groups: groups, Super: user == who.Owner || slices.Contains(groups, who.Group)}
}

// sayEvery is how often it is said that groups cannot be looked up.
const sayEvery = 10 * time.Second

// groups returns those of a user; where they cannot be known, none.
func (c *Callers) groups(name string) []string {
	if c.Groups != nil {
		return c.Groups(name)
	}
	groups, err := groupsOf(cmp.Or(c.Accounts, accounts.Here), name)
	if err == nil {
		return groups
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.Node != nil && now.Sub(c.said) >= sayEvery {
		c.said = now
		c.Node.Config.Log.Warn("the groups of a caller cannot be looked up: none count", "user", name, "err", err)
	}
	return nil
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
	return db.GroupNames(u)
}
