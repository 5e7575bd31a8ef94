package accounts

import (
	"errors"
	"fmt"
	"strings"
)

// entry is what a database has of somebody.
type entry struct {
	name    string
	id, gid uint32
	members []string // of a group in the local file
	groups  []uint32 // of a user
}

func (e entry) account() Account { return Account{e.name, e.id, e.gid} }

// mostGroups is how many groups a process can have (NGROUPS_MAX).
const mostGroups = 65536

var errRubbish = errors.New("what it says is not an entry")

// parseEntry reads a line of passwd or group.
func parseEntry(database, line string) (e entry, err error) {
	fields, want := strings.Split(line, ":"), 7
	if database == "group" {
		want = 4
	}
	if len(fields) != want || !isName(fields[0]) {
		return e, errRubbish
	}
	if e.id, err = ParseID(fields[2]); err != nil {
		return e, fmt.Errorf("%w: %w", errRubbish, err)
	}
	e.name = fields[0]
	if database == "group" {
		e.members = strings.Split(fields[3], ",")
		return e, nil
	}
	if e.gid, err = ParseID(fields[3]); err != nil {
		return entry{}, fmt.Errorf("%w: %w", errRubbish, err)
	}
	return e, nil
}

// parseAnswer reads what getent says to a question. Of a group only the name and the number
// are kept: the list of its members may be very long, and cut.
func parseAnswer(q question, out string, cut bool) (entry, error) {
	line := strings.TrimSuffix(out, "\n")
	switch {
	case strings.Contains(line, "\n"):
		return entry{}, fmt.Errorf("%w: several lines", errRubbish)
	case cut && q.database != "group":
		return entry{}, fmt.Errorf("%w: more than %d bytes", errRubbish, mostOutput)
	case q.database == "initgroups":
		return parseGroups(q, line)
	}
	if q.database == "group" {
		if head := strings.SplitN(line, ":", 4); len(head) == 4 {
			line = strings.Join(head[:3], ":") + ":"
		}
	}
	e, err := parseEntry(q.database, line)
	if err != nil {
		return entry{}, err
	}
	e.members = nil
	if id, bad := ParseID(q.key); bad == nil && id != e.id {
		return entry{}, fmt.Errorf("%w: it is of %d", errRubbish, e.id)
	}
	return e, nil
}

// parseGroups reads the name that was asked for, which may have spaces in it, and numbers.
func parseGroups(q question, line string) (e entry, err error) {
	rest, ok := strings.CutPrefix(line, q.key)
	if !ok || rest != "" && rest[0] != ' ' {
		return e, fmt.Errorf("%w: it is of somebody else", errRubbish)
	}
	fields := strings.Fields(rest)
	if len(fields) > mostGroups {
		return e, fmt.Errorf("%w: %d groups", errRubbish, len(fields))
	}
	groups := make([]uint32, len(fields))
	for i, f := range fields {
		if groups[i], err = ParseID(f); err != nil {
			return e, fmt.Errorf("%w: %w", errRubbish, err)
		}
	}
	return entry{name: q.key, groups: groups}, nil
}
