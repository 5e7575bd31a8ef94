package accounts

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// settled is how old the last change of a file must be for another one to be seen by its time: that goes in
// steps of some milliseconds.
const settled = time.Second

// local is a file and what was read of it, which counts until the file changes.
type local[T any] struct {
	path    string
	settled time.Duration // settled, but for tests
	last    atomic.Pointer[version[T]]
}

// version is what a file had in it when it was like this.
type version[T any] struct {
	dev, ino uint64
	size     int64
	changed  syscall.Timespec
	has      T
}

func (v *version[T]) is(st *syscall.Stat_t) bool {
	return v.dev == uint64(st.Dev) && v.ino == st.Ino && v.size == st.Size && v.changed == st.Ctim
}

// read returns what parse makes of the file; of a file that is not there, what it makes of an empty one. What
// was read before an error comes with it.
func (l *local[T]) read(parse func(io.Reader) (T, error)) (has T, err error) {
	var st syscall.Stat_t
	if last := l.last.Load(); last != nil && syscall.Stat(l.path, &st) == nil && last.is(&st) {
		return last.has, nil
	}
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return parse(strings.NewReader(""))
	}
	if err != nil {
		return has, err
	}
	defer file.Close()
	now := time.Now()
	if err := syscall.Fstat(int(file.Fd()), &st); err != nil {
		return has, &os.PathError{Op: "stat", Path: l.path, Err: err}
	}
	if has, err = parse(file); err == nil && now.Sub(time.Unix(st.Ctim.Unix())) >= l.settled {
		l.last.Store(&version[T]{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, changed: st.Ctim, has: has})
	}
	return has, err
}

// table is passwd or group: the first entry of each name and of each number, and the groups that name a member.
type table struct {
	byName map[string]entry
	byID   map[uint32]entry
	of     map[string][]uint32
}

// parseTable reads passwd or group. Lines that are not valid are nobody's, as to the C library.
func parseTable(database string, text io.Reader) (table, error) {
	t := table{map[string]entry{}, map[uint32]entry{}, map[string][]uint32{}}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, mostOutput)
	for lines.Scan() {
		e, err := parseEntry(database, lines.Text())
		if err != nil {
			continue
		}
		for _, who := range e.members {
			if have := t.of[who]; !slices.Contains(have, e.id) {
				t.of[who] = append(have, e.id)
			}
		}
		e.members = nil
		if _, is := t.byName[e.name]; !is {
			t.byName[e.name] = e
		}
		if _, is := t.byID[e.id]; !is {
			t.byID[e.id] = e
		}
	}
	return t, lines.Err()
}

// table returns a local file as it is now.
func (d *Database) table(database string) (table, error) {
	l := &d.passwd
	if database == "group" {
		l = &d.group
	}
	return l.read(func(text io.Reader) (table, error) { return parseTable(database, text) })
}

// found returns what a table has, or the error with which it was read.
func found[K comparable](all map[K]entry, key K, err error) (entry, error) {
	e, ok := all[key]
	switch {
	case ok:
		return e, nil
	case err != nil:
		return entry{}, err
	}
	return entry{}, ErrUnknown
}

// parseSwitch reads nsswitch.conf: the services other than files that each database has.
func parseSwitch(text io.Reader) (map[string][]string, error) {
	b, err := io.ReadAll(text)
	services := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		name, rest, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		for { // what to do after each: [NOTFOUND=return]
			before, after, is := strings.Cut(rest, "[")
			if !is {
				break
			}
			_, after, _ = strings.Cut(after, "]")
			rest = before + " " + after
		}
		services[strings.TrimSpace(name)] = slices.DeleteFunc(strings.Fields(rest), func(s string) bool { return s == "files" })
	}
	return services, err
}

// beyond returns the services other than files that nsswitch.conf has for a database. Who
// is in which groups is in group unless it has a line of its own. Without a line, or
// without the file, it is files.
func (d *Database) beyond(database string) []string {
	services, err := d.nsswitch.read(parseSwitch)
	if err != nil {
		return nil
	}
	if own, ok := services[database]; ok || database != "initgroups" {
		return own
	}
	return services["group"]
}
