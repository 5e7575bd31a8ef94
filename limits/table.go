package limits

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"headrace/config"
)

// section is the name of the section with the limits of everybody; those of
// others begin with it.
const section = "limits"

// Table is the limits of everybody.
type Table struct {
	file string
	all  values
	// said are the sections of users and groups by name, order their names.
	said   map[string]values
	order  []string
	groups map[uint32]string // section by id
}

// Default returns the table when nothing was said; file is where something could be.
func Default(file string) *Table {
	return &Table{file: file, all: defaults, said: map[string]values{}, groups: map[uint32]string{}}
}

// Groups finds a group's id by its name.
type Groups func(name string) (uint32, error)

// SystemGroups asks the group database. It may block.
func SystemGroups(name string) (uint32, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		if g, err = user.LookupGroupId(name); err != nil {
			return 0, fmt.Errorf("there is no group %q on this machine", name)
		}
	}
	id, err := strconv.ParseUint(g.Gid, 10, 32)
	return uint32(id), err
}

// IsSection reports whether a section of a file is about limits.
func IsSection(name string) bool { return name == section || strings.HasPrefix(name, section+" ") }

// Read makes a table of a file's sections of limits (f may be nil) and then of
// flags, which count before them: KEY=VALUE, user:NAME:KEY=VALUE or
// group:NAME:KEY=VALUE. Groups that do not exist are returned as warnings: nobody
// is in them. The error is all that is wrong.
func Read(f *config.File, file string, flags []string, lookUp Groups) (t *Table, warnings []error, err error) {
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
	t.all = said.or(defaults)
	for _, s := range t.order {
		name, is := strings.CutPrefix(s, section+" group ")
		if !is {
			continue
		}
		gid, err := lookUp(name)
		if err != nil {
			warnings = append(warnings, fmt.Errorf("limits of group %s: %w", name, err))
			continue
		}
		t.groups[gid] = s
	}
	return t, warnings, errors.Join(wrong...)
}

// take reads one section.
func (t *Table) take(f *config.File, s config.Section, all *values) error {
	v, err := t.of(s.Name, all)
	if err != nil {
		return f.Errorf(s.Line, "%w", err)
	}
	var wrong []error
	for _, e := range s.Entries {
		if err := v.set(e.Key, e.Value); err != nil {
			wrong = append(wrong, f.Errorf(e.Line, "%w", err))
		}
	}
	t.put(s.Name, v, all)
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

func (t *Table) put(name string, v values, all *values) {
	if name == section {
		*all = v
		return
	}
	if _, ok := t.said[name]; !ok {
		t.order = append(t.order, name)
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
	t.put(name, v, all)
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
	own, ok := t.said[section+" user "+w.Name]
	if number := strconv.FormatUint(uint64(w.UID), 10); !ok {
		if own, ok = t.said[section+" user "+number]; !ok {
			own = unsaid
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
	return own.or(grouped).or(t.all).limits()
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
