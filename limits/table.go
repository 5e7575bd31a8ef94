package limits

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"headrace/config"
	"headrace/internal/accounts"
)

// section is the name of the section with the limits of everybody; those of
// others begin with it.
const section = "limits"

// Table is the limits of everybody.
type Table struct {
	file string
	all  values
	// said are the sections of users and groups by name, order their names, at where each
	// is, for messages.
	said  map[string]values
	order []string
	at    map[string]string
	// users and groups are the sections of those that are known, by number.
	users, groups map[uint32]string
	// unknown are the sections of names that nobody knows. others is what everybody has of
	// whom nothing else is said, and nameless what those have at most whose name nobody knows.
	unknown          []string
	others, nameless values
}

// Default returns the table when nothing was said; file is where something could be.
func Default(file string) *Table {
	return &Table{file: file, all: defaults, others: defaults, nameless: unsaid, said: map[string]values{}, at: map[string]string{}}
}

// Accounts finds users and groups by name. An accounts.Database is one. Its methods may
// block, and are called concurrently.
type Accounts interface {
	User(name string) (accounts.Account, error)
	Group(name string) (uint32, error)
}

// IsSection reports whether a section of a file is about limits.
func IsSection(name string) bool { return name == section || strings.HasPrefix(name, section+" ") }

// Read makes a table of a file's sections of limits (f may be nil) and then of
// flags, which count before them: KEY=VALUE, user:NAME:KEY=VALUE or
// group:NAME:KEY=VALUE. A NAME may be a number. The error is all that is wrong; unknown
// are the names that nobody knows, as Resolve has them. It blocks as db does.
func Read(f *config.File, file string, flags []string, db Accounts) (t *Table, unknown []error, err error) {
	t = Default(file)
	var wrong []error
	said := unsaid
	if f != nil {
		for _, s := range f.Sections {
			if IsSection(s.Name) {
				wrong = append(wrong, t.take(f, s, &said))
			}
		}
	}
	for _, flag := range flags {
		if err := t.flag(flag, &said); err != nil {
			wrong = append(wrong, fmt.Errorf("--limit %s: %w", flag, err))
		}
	}
	t.all, t.unknown = said.or(defaults), t.order
	t, unknown = t.Resolve(db)
	return t, unknown, errors.Join(wrong...)
}

// Resolve returns the table with names looked up again that nobody knew, and an error for
// each that nobody knows still. It blocks as db does, for all names at once.
//
// Who has such a name, or is in such a group, cannot be told. So what its section
// forbids counts for all who may be meant, and what it allows for nobody: a group may be
// anybody's of whom nothing is said but in [limits], a user may be one without a name.
func (t *Table) Resolve(db Accounts) (*Table, []error) {
	n := *t
	n.users, n.groups, n.unknown = map[uint32]string{}, map[uint32]string{}, nil
	maps.Copy(n.users, t.users)
	maps.Copy(n.groups, t.groups)
	n.others, n.nameless = t.all, unsaid
	ids, errs := make([]uint32, len(t.unknown)), make([]error, len(t.unknown))
	var each sync.WaitGroup
	for i, s := range t.unknown {
		each.Go(func() { ids[i], errs[i] = idOf(s, db) })
	}
	each.Wait()
	var unknown []error
	for i, s := range t.unknown {
		switch user := isUser(s); {
		case errs[i] != nil:
			unknown = append(unknown, fmt.Errorf("%s%w", t.at[s], errs[i]))
			n.unknown = append(n.unknown, s)
			if user {
				n.nameless = n.nameless.least(t.said[s])
			} else {
				n.others = n.others.least(t.said[s])
			}
		case user:
			n.users[ids[i]] = s
		default:
			n.groups[ids[i]] = s
		}
	}
	return &n, unknown
}

func isUser(section string) bool { return strings.Fields(section)[1] == "user" }

// idOf looks up whom a section is about. A number is one, whether anybody has it or not.
func idOf(section string, db Accounts) (id uint32, err error) {
	name := strings.Fields(section)[2]
	if isUser(section) {
		var a accounts.Account
		a, err = db.User(name)
		id = a.UID
	} else {
		id, err = db.Group(name)
	}
	if n, bad := accounts.ParseID(name); err != nil && bad == nil {
		return n, nil
	}
	return id, err
}

// take reads one section.
func (t *Table) take(f *config.File, s config.Section, all *values) error {
	name := strings.Join(strings.Fields(s.Name), " ")
	v, err := t.of(name, all)
	if err != nil {
		return f.Errorf(s.Line, "%w", err)
	}
	var wrong []error
	for _, e := range s.Entries {
		if err := v.set(e.Key, e.Value); err != nil {
			wrong = append(wrong, f.Errorf(e.Line, "%w", err))
		}
	}
	t.put(name, fmt.Sprintf("%s:%d: ", f.Name, s.Line), v, all)
	return errors.Join(wrong...)
}

// of returns what was said so far in a section.
func (t *Table) of(name string, all *values) (values, error) {
	words := strings.Fields(name)
	switch {
	case len(words) == 1:
		return *all, nil
	case len(words) == 3 && (words[1] == "user" || words[1] == "group"):
		if v, ok := t.said[name]; ok {
			return v, nil
		}
		return unsaid, nil
	}
	return values{}, fmt.Errorf("[%s]: want [limits], [limits user NAME] or [limits group NAME]", name)
}

func (t *Table) put(name, at string, v values, all *values) {
	if name == section {
		*all = v
		return
	}
	if _, ok := t.said[name]; !ok {
		t.order = append(t.order, name)
		t.at[name] = at
	}
	t.said[name] = v
}

func (t *Table) flag(s string, all *values) error {
	head, value, found := strings.Cut(s, "=")
	parts := strings.Split(head, ":")
	name := section
	switch {
	case found && len(parts) == 1:
	case found && len(parts) == 3:
		name = section + " " + parts[0] + " " + parts[1]
	default:
		return errors.New("want KEY=VALUE, user:NAME:KEY=VALUE or group:NAME:KEY=VALUE")
	}
	v, err := t.of(name, all)
	if err != nil {
		return err
	}
	if err := v.set(parts[len(parts)-1], value); err != nil {
		return err
	}
	t.put(name, "--limit "+s+": ", v, all)
	return nil
}

func (v *values) set(key, value string) error {
	k := slices.Index(keyNames[:], key)
	if k < 0 {
		return config.Unknown(key, keyNames[:])
	}
	x, err := parse(k, value)
	if err != nil {
		return fmt.Errorf("%s = %s: %w", key, value, err)
	}
	v[k] = x
	return nil
}

// Who is a user as limits go by it.
type Who struct {
	UID    uint32
	Name   string // the number where there is no name
	GID    uint32
	Groups []uint32
}

// Of returns the limits of a user who is neither root nor the daemon's own.
func (t *Table) Of(w Who) Limits {
	number := strconv.FormatUint(uint64(w.UID), 10)
	own := unsaid
	for _, s := range []string{section + " user " + w.Name, t.users[w.UID], section + " user " + number} {
		if v, ok := t.said[s]; ok {
			own = v
			break
		}
	}
	grouped := unsaid
	for i := -1; i < len(w.Groups); i++ {
		gid := w.GID
		if i >= 0 {
			gid = w.Groups[i]
		}
		if s, ok := t.groups[gid]; ok {
			grouped = grouped.most(t.said[s])
		}
	}
	all := own.or(grouped).or(t.others)
	if w.Name == number {
		all = all.least(t.nameless)
	}
	return all.limits()
}

// File returns where limits are set, for messages.
func (t *Table) File() string { return t.file }

// Source is the table in force. Its methods may be called concurrently.
type Source struct{ now atomic.Pointer[Table] }

// NewSource returns a source of t.
func NewSource(t *Table) *Source {
	s := &Source{}
	s.now.Store(t)
	return s
}

// Now returns the table in force.
func (s *Source) Now() *Table { return s.now.Load() }

// Replace puts another table in force, whole and at once.
func (s *Source) Replace(t *Table) { s.now.Store(t) }
