package names

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"headrace/meta"
	"headrace/ring"
)

// Versions of all that nodes have to understand of each other: commands, the bytes of views, and what they say besides. The first is that of the last nodes that said
// of none; those before them know less. With the second come ring.Rack, package meta's seventh version, that the number of a member counts which is admitted, and that a version is in force. A change that others have to know is a new version,
// noted here, and in force where somebody has said so when all nodes understood it: raise.
const (
	version1 = iota + 1
	version2
	newest = version2
)

// commands are, from the first version on, the newest of package meta's that come with it.
var commands = [newest]byte{6, meta.Newest}

// events are in ring.Event from the first version on, but for these.
var eventSince = map[string]uint32{"Rack": version2}

// understood is set by the linker for tests of updates (-X headrace/dfs/names.understood=1): the program then is one that knows no other version than up to this
// one, and reads, applies and announces none.
var understood string

// Understands returns the version that this program understands.
func Understands() uint32 {
	if n, err := strconv.ParseUint(understood, 10, 32); err == nil && n > 0 {
		return uint32(n)
	}
	return newest
}

// commandsOf returns the newest version of package meta's commands that nodes of a version know.
func commandsOf(version uint32) byte { return commands[min(max(version, version1), newest)-1] }

// needs returns the version that whoever applies a command has to understand.
func needs(data []byte) uint32 {
	if len(data) < 2 {
		return version1
	}
	switch data[0] {
	case kindMeta:
		for i, most := range commands {
			if data[1] <= most {
				return uint32(i + 1)
			}
		}
		return newest + 1
	case kindRing:
		name, _, _ := bytes.Cut(data[1:], []byte(":"))
		return max(version1, eventSince[string(name)])
	case kindRaise:
		if c, err := decodeRaise(data[1:]); err == nil {
			return max(version2, c.Version)
		}
		return newest + 1
	}
	return version1
}

var (
	// ErrOld is the error of a node that does not understand the version in force.
	ErrOld = errors.New("this version of Headrace is older than the one that is in force in the file system: install the version of the other nodes here, and start again")
	// ErrVersion is the error of what takes a newer version than that in force. Nothing was done.
	ErrVersion = errors.New("not all nodes of the file system are known to understand that: update those that do not (headrace dfs status), then: headrace dfs raise")
	// ErrStays is the error of Raise when it cannot be sure that all nodes understand a newer version. Nothing was done.
	ErrStays = errors.New("the version in force stays as it is")
)

// Old returns nil if who understands a version can be a node of a file system, and ErrOld if not.
func (v *View) Old(understands uint32) error {
	if max(version1, understands) >= v.Version {
		return nil
	}
	return fmt.Errorf("%w (version %d is in force, and this one understands %d)", ErrOld, v.Version, max(version1, understands))
}

// Allows reports whether an event may happen while the version is in force that is.
func (v *View) Allows(e ring.Event) bool {
	b, err := encodeEvent(e)
	return err == nil && needs(b) <= max(version1, v.Version)
}

// As returns a member as it is noted while the version is in force that is: in the first one nobody says what it understands.
func (v *View) As(m Member) Member {
	if v.Version < version2 {
		m.Version = 0
	}
	return m
}

// raise is a command that puts a version in force.
type raise struct {
	Version uint32
	// Nodes are those that understand it, as the one that leads has heard or was told.
	Nodes []string
}

func encodeRaise(c raise) ([]byte, error) {
	b, err := json.Marshal(c)
	return append([]byte{kindRaise}, b...), err
}

func decodeRaise(b []byte) (c raise, err error) {
	err = fromJSON(b, &c)
	return c, err
}

// raise puts a version in force. A node that has come meanwhile was not asked.
func (r *roster) raise(c raise, index uint64) (*roster, error) {
	if c.Version <= r.Version {
		return r, nil
	}
	for _, n := range r.Table.Nodes() {
		if n.State != ring.IsOut && !slices.Contains(c.Nodes, n.Name) {
			return r, fmt.Errorf("%w: whether node %s understands version %d is not known", ring.ErrState, n.Name, c.Version)
		}
	}
	n := r.changed(index)
	n.Version = c.Version
	return n, nil
}

// next returns the newest version that all nodes understand which are not out, and these; that in force when all understand no more. A node that is down keeps others from being
// sure, unless it is not to be waited for: if it is older, it is refused when it is back. One that is up is always waited for: it serves, perhaps votes, and is heard soon, or down.
func (v *View) next(understands func(node string) (version uint32, said bool), despiteAway bool) (to raise, err error) {
	in := max(version1, v.Version)
	of := map[uint32][]string{}
	var away, unheard []string
	for _, n := range v.Table.Nodes() {
		if n.State == ring.IsOut {
			continue
		}
		to.Nodes = append(to.Nodes, n.Name)
		who := fmt.Sprintf("node %.8s (%s)", n.Name, v.Members[n.Name].Host)
		switch version, said := understands(n.Name); {
		case n.State != ring.IsUp:
			away = append(away, who)
		case !said:
			unheard = append(unheard, who)
		default:
			of[version] = append(of[version], who)
		}
	}
	all := slices.Sorted(maps.Keys(of))
	if len(all) == 0 {
		return to, fmt.Errorf("%w: no node has said what it understands. Ask again in some seconds", ErrStays)
	}
	switch to.Version = all[0]; {
	case to.Version <= in && len(all) > 1:
		return to, fmt.Errorf("%w: version %d is all that these understand: %s. Install the version of the other nodes there first", ErrStays, to.Version, strings.Join(of[to.Version], ", "))
	case to.Version <= in:
		to.Version = in
	case len(unheard) > 0:
		return to, fmt.Errorf("%w: the node that leads has not heard lately what these understand: %s. Ask again in some seconds", ErrStays, strings.Join(unheard, ", "))
	case len(away) > 0 && !despiteAway:
		return to, fmt.Errorf("%w: these are away, and may be older: %s. Wait until they are back, or out; or give --despite-away: "+
			"then those that are older are refused when they are back, until they are updated", ErrStays, strings.Join(away, ", "))
	}
	return to, nil
}

// Raise puts the newest version in force that all nodes understand which are not out, by what they have said to this one, which leads: no node that
// understands less is one from then on. See next for nodes that are away. It returns a view that has it, and whether another one was in force before.
func (g *Group) Raise(ctx context.Context, understands func(node string) (version uint32, said bool), despiteAway bool) (v *View, raised bool, err error) {
	if err := g.answers(); err != nil {
		return nil, false, err
	}
	v = g.View()
	to, err := v.next(func(node string) (uint32, bool) {
		if node == g.self {
			return g.Understands(), true
		}
		return understands(node)
	}, despiteAway)
	if err != nil || to.Version <= max(version1, v.Version) {
		return v, false, err
	}
	b, err := encodeRaise(to)
	if err == nil {
		_, err = g.propose(ctx, b)
	}
	return g.View(), err == nil, err
}

// Understands returns the version that this node understands.
func (g *Group) Understands() uint32 { return g.machine.knows }

// Outdated ends the node, which others have said is older than the version in force: see ErrOld.
func (g *Group) Outdated(err error) { g.fail(err) }

// permitted refuses a command that not all nodes are sure to understand.
func (g *Group) permitted(data []byte) error {
	n, in := needs(data), max(version1, g.View().Version)
	switch {
	case data[0] == kindRaise && n > g.machine.knows:
		return fmt.Errorf("%w: this node itself understands version %d", ErrVersion, g.machine.knows)
	case data[0] != kindRaise && n > in:
		return fmt.Errorf("%w (it takes version %d, and %d is in force)", ErrVersion, n, in)
	}
	return nil
}
