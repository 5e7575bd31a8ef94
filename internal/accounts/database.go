package accounts

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrUnknown: there is no such account, or the service that has it is down.
	ErrUnknown = errors.New("no file and no directory service of this machine knows it")
	// ErrSilent: getent has failed, or has not answered in time.
	ErrSilent = errors.New("the directory service cannot be asked")
)

// Account is a user.
type Account struct {
	Name     string
	UID, GID uint32
}

// Database is where the accounts of a machine are looked up. It is safe for concurrent use.
// All that asks may block for Patience.
type Database struct {
	passwd, group local[table]
	nsswitch      local[map[string][]string]
	subuid        local[[]subordinates]
	program       string
	patience      time.Duration
	glance        time.Duration // how long Shown waits
	now           func() time.Time
	// slots has one for each getent, strange one for each of those that are asked for a name which may be made up.
	slots, strange chan struct{}

	mu sync.Mutex
	// answers has who is known, or was, and others all other questions: what anybody makes up drops nothing that is known.
	answers, others map[question]*answer
	// silent is until when nobody waits for names that are only shown.
	silent time.Time
}

// Here is the database of this machine.
var Here = New("/etc", "")

// Patience is how long getent may take to answer.
const Patience = 5 * time.Second

// New returns a database of the passwd, group, nsswitch.conf and subuid in a directory, that asks
// the program getent beyond them; empty: the one in PATH or in /usr/bin.
func New(etc, getent string) *Database {
	d := &Database{program: getent, patience: Patience, glance: time.Second, now: time.Now, slots: make(chan struct{}, mostAtOnce), strange: make(chan struct{}, mostStrange),
		answers: map[question]*answer{}, others: map[question]*answer{}}
	d.passwd.path, d.group.path, d.nsswitch.path = filepath.Join(etc, "passwd"), filepath.Join(etc, "group"), filepath.Join(etc, "nsswitch.conf")
	d.subuid.path = filepath.Join(etc, "subuid")
	d.passwd.settled, d.group.settled, d.nsswitch.settled, d.subuid.settled = settled, settled, settled, settled
	return d
}

// User finds a user by name. The error wraps ErrUnknown or ErrSilent, or is one of a file.
func (d *Database) User(name string) (Account, error) {
	e, err := d.find(question{"passwd", name})
	return e.account(), err
}

// UserOf finds a user by number. Errors are as those of User.
func (d *Database) UserOf(uid uint32) (Account, error) {
	e, err := d.findWithin(uid, d.patience)
	return e.account(), err
}

// Find finds a user by name, or else by number. Errors are as those of User.
func (d *Database) Find(text string) (Account, error) {
	a, err := d.User(text)
	if uid, bad := ParseID(text); errors.Is(err, ErrUnknown) && bad == nil {
		return d.UserOf(uid)
	}
	return a, err
}

// Group finds the number of a group by name. Errors are as those of User.
func (d *Database) Group(name string) (uint32, error) {
	e, err := d.find(question{"group", name})
	return e.id, err
}

// GroupsOf returns the numbers of all groups of a user, the user's own first. Where
// only some of them can be known it is an error, as those of User are.
func (d *Database) GroupsOf(a Account) ([]uint32, error) {
	t, err := d.table("group")
	return d.groupsIn(t, err, a)
}

// groupsIn is GroupsOf with what was read of the local file, and the error of that.
func (d *Database) groupsIn(t table, err error, a Account) ([]uint32, error) {
	groups := append([]uint32{a.GID}, t.of[a.Name]...)
	if err == nil && a.UID != 0 && isName(a.Name) {
		var e entry
		e, err = d.elsewhere(question{"initgroups", a.Name}, d.patience)
		groups = append(groups, e.groups...)
		if errors.Is(err, ErrUnknown) {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look up the groups of %s: %w", a.Name, err)
	}
	slices.Sort(groups[1:])
	return append(groups[:1], slices.DeleteFunc(slices.Compact(groups[1:]), func(g uint32) bool { return g == a.GID })...), nil
}

// GroupNames returns the names of all groups of a user that have one, the user's own first. Errors are as those of GroupsOf.
func (d *Database) GroupNames(a Account) (names []string, err error) {
	t, err := d.table("group") // once for all: that it is the same takes as long to see as all else
	ids, err := d.groupsIn(t, err, a)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		switch e, err := d.findIn(t, nil, question{"group", number(id)}, id, d.patience); {
		case err == nil:
			names = append(names, e.name)
		case !errors.Is(err, ErrUnknown):
			return nil, err
		}
	}
	return names, nil
}

// Shown returns what people call a user: the number of one whose name is not known at
// once, or within a second. What is decided by a name asks UserOf.
func (d *Database) Shown(uid uint32) string {
	d.mu.Lock()
	wait := min(d.patience, d.glance)
	if d.now().Before(d.silent) {
		wait = 0
	}
	d.mu.Unlock()
	if e, err := d.findWithin(uid, wait); err == nil {
		return e.name
	}
	return number(uid)
}

// Self returns the user who runs this process. One whom the database does not have is
// called what the environment says.
func (d *Database) Self() (Account, error) {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	a, err := d.UserOf(uid)
	if err == nil {
		return a, nil
	}
	if u, other := user.Current(); other == nil {
		return Account{u.Username, uid, gid}, nil
	}
	return a, err
}

// Problem says why accounts are not known here that nsswitch.conf has elsewhere than in
// files; nil: there are none, or they are known.
func (d *Database) Problem() error {
	services := d.Services()
	if len(services) == 0 {
		return nil
	}
	if _, err := d.getent(); err != nil {
		return fmt.Errorf("users and groups of %s are not known, nor are their limits by name and supplementary groups: nsswitch.conf names it beside files, and getent is missing (%w); install it (libc-bin, glibc-common)",
			strings.Join(services, " and "), err)
	}
	return nil
}

// Services returns where nsswitch.conf has users and groups beside files.
func (d *Database) Services() []string {
	all := slices.Concat(d.beyond("passwd"), d.beyond("group"), d.beyond("initgroups"))
	slices.Sort(all)
	return slices.Compact(all)
}

// ParseID reads the number of a user or a group. The greatest is none: the kernel takes
// it for "leave it as it is".
func ParseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == math.MaxUint32 {
		return 0, fmt.Errorf("%q is not the number of a user or a group", s)
	}
	return uint32(n), nil
}

func number(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// isName reports whether a text may be a name. What does not look like one to getent, or
// could leave a line of a file, is not.
func isName(s string) bool {
	return s != "" && len(s) <= 256 && utf8.ValidString(s) && s[0] != '-' && s[0] != '+' && strings.TrimSpace(s) == s &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(":,/", r) }) < 0
}

// find looks into the local file, and then elsewhere.
func (d *Database) find(q question) (entry, error) {
	if !isName(q.key) {
		return entry{}, fmt.Errorf("%q is not a name: %w", q.key, ErrUnknown)
	}
	t, err := d.table(q.database)
	e, err := found(t.byName, q.key, err)
	if !errors.Is(err, ErrUnknown) {
		return e, err
	}
	if strings.Trim(q.key, "0123456789") != "" { // a number getent would take for one
		e, err = d.elsewhere(q, d.patience)
	}
	if err != nil {
		return entry{}, fmt.Errorf("%s %q: %w", q.what(), q.key, err)
	}
	return e, nil
}

// findWithin looks for a user by number.
func (d *Database) findWithin(uid uint32, patience time.Duration) (entry, error) {
	t, err := d.table("passwd")
	return d.findIn(t, err, question{"passwd", number(uid)}, uid, patience)
}

// findIn looks for a number in what was read of a local file, and then elsewhere. err is that of the reading.
func (d *Database) findIn(t table, err error, q question, id uint32, patience time.Duration) (entry, error) {
	e, err := found(t.byID, id, err)
	if !errors.Is(err, ErrUnknown) {
		return e, err
	}
	if e, err = d.elsewhere(q, patience); err == nil {
		if _, local := t.byName[e.name]; local { // who is local has the name
			err = fmt.Errorf("%w: it says %q, which is another's in the local file", ErrSilent, e.name)
		}
	}
	if err != nil {
		return entry{}, fmt.Errorf("%s %s: %w", q.what(), q.key, err)
	}
	return e, nil
}
