package meta

import (
	"errors"
	"slices"
)

const (
	// mostLooked is how many files and directories a command looks at to find out what is below one: while it is applied, nothing else is, on any
	// node.
	mostLooked  = 1000
	mostSurveys = 64
)

// errTooMuch is the error of a command that would have to look at more.
var errTooMuch = &Error{classRetriable, "What is below it is changed by others again and again while it is looked through. Try again."}

// TooMuch reports whether a command needs a survey of what is below its directory. Who proposes it proposes what Command.Survey returns, has
// Query.Survey look, and proposes it again with what that has Seen.
func TooMuch(err error) bool { e, is := errors.AsType[*Error](err); return is && *e == *errTooMuch }

// Seen is what a survey has found: that nothing is in the caller's way, and what the directory took of quotas when the survey began.
type Seen struct {
	Number       uint64
	Names, Space int64
}

func (v *Seen) code(c *coder) { number(c, &v.Number); c.signed(&v.Names); c.signed(&v.Space) }

// Survey begins a look at all that is below a directory, beside other commands. These end it when they change what it finds in a way that cannot
// be told without another look. The result is whether there is such a directory.
type Survey struct {
	Path   string
	Number uint64 // no other one has it
	Rights bool   // the caller is to have all rights there, to take it away
}

func (o *Survey) code(c *coder) { text(c, &o.Path); number(c, &o.Number); c.flag(&o.Rights) }

func (o *Survey) apply(s *state) (Result, error) {
	if err := s.awake("Cannot look through %s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err != nil {
		return nil, err
	}
	n, v := t.last(), surveysOf(s.records)
	if n == nil || !n.Directory {
		return flag(false), nil
	}
	if !slices.ContainsFunc(v.all, func(y *survey) bool { return y.Number == o.Number }) {
		v.all = append(v.all, &survey{Number: o.Number, Directory: n.ID, By: s.caller, Rights: o.Rights && !s.caller.Super})
		if len(v.all) > mostSurveys {
			v.giveWay(s.rules)
		}
		v.keep()
	}
	return flag(true), nil
}

// Survey returns what begins the survey that a command needs, for the same caller.
func (m Command) Survey(number uint64) *Survey {
	y := &Survey{Number: number}
	switch o := m.Op.(type) {
	case *Delete:
		y.Path, y.Rights = o.Path, true
	case *Rename:
		y.Path, y.Rights = o.From, o.trash()
	case *SetQuota:
		y.Path = o.Path
	}
	return y
}

// Survey looks at all that is below the directory of a survey; nil when that was ended. An error is what the command that needs it is refused with.
func (q Query) Survey(o *Survey) (*Seen, error) {
	s, seen := q.state(), &Seen{Number: o.Number}
	t, err := s.resolve(o.Path, toRead)
	if err != nil || t.last() == nil {
		return nil, err
	}
	y := surveysOf(s.records).find(seen, q.Caller, t.last())
	if y == nil {
		return nil, nil
	}
	need := Access(0)
	if y.Rights {
		need = All
	}
	u, err := s.through(t.last(), need, true)
	if err != nil {
		return nil, err
	}
	u = u.minus(y.Since)
	seen.Names, seen.Space = u.names, u.space
	return seen, nil
}

// survey is one under way.
type survey struct {
	Number    uint64
	Directory uint64
	By        Caller
	Rights    bool
	Since     usage // what the directory takes more since it began
}

func codeSurvey(c *coder, v **survey) {
	if c.reading {
		*v = &survey{}
	}
	y := *v
	number(c, &y.Number)
	number(c, &y.Directory)
	y.By.code(c)
	c.flag(&y.Rights)
	c.signed(&y.Since.names)
	c.signed(&y.Since.space)
}

// hindered reports whether a directory may keep the caller from taking away what is in it. Who owns what is in a sticky one, it does not look at.
func (y *survey) hindered(dir *inode) bool {
	by := &state{caller: y.By}
	return dir.Children > 0 && (!by.allows(dir, All) || dir.Mode&sticky != 0 && dir.Owner != y.By.User)
}

// surveys are those under way.
type surveys struct {
	records *records
	all     []*survey
}

// surveysOf reads them, once for each command.
func surveysOf(s *records) *surveys {
	if s.surveys == nil {
		s.surveys = &surveys{records: s}
		s.load(key(keyConfig, 3), s.surveys)
	}
	return s.surveys
}

func (v *surveys) code(c *coder) { list(c, &v.all, codeSurvey) }

func (v *surveys) keep() {
	if len(v.all) == 0 {
		v.records.v.Delete(key(keyConfig, 3))
		return
	}
	v.records.store(key(keyConfig, 3), v)
}

// find returns the survey of a directory that somebody has seen, if it was not ended.
func (v *surveys) find(seen *Seen, by Caller, dir *inode) *survey {
	for _, y := range v.all {
		if seen != nil && y.Number == seen.Number && y.Directory == dir.ID && y.By.User == by.User && slices.Equal(y.By.Groups, by.Groups) && y.By.Super == by.Super {
			return y
		}
	}
	return nil
}

// end ends some of them.
func (v *surveys) end(which func(*survey) bool) {
	n := len(v.all)
	if v.all = slices.DeleteFunc(v.all, which); len(v.all) < n {
		v.keep()
	}
}

// giveWay leaves out the oldest of the user who has most: whoever began it may be gone, and nobody is to end others' by beginning many.
func (v *surveys) giveWay(rules byte) {
	oldest := 0
	if rules > version6 {
		each, most := map[string]int{}, 0
		for _, y := range v.all {
			each[y.By.User]++
			most = max(most, each[y.By.User])
		}
		oldest = slices.IndexFunc(v.all, func(y *survey) bool { return each[y.By.User] == most })
	}
	v.all = slices.Delete(v.all, oldest, oldest+1)
}

// changed ends those for whose callers a directory is in the way now.
func (v *surveys) changed(dir *inode) {
	v.end(func(y *survey) bool { return y.Rights && y.hindered(dir) && v.has(y.Directory, dir) })
}

// has reports whether a directory is another one, or below it.
func (v *surveys) has(top uint64, dir *inode) bool {
	for dir != nil && dir.ID != top && dir.Parent != 0 {
		dir = v.records.directory(dir.Parent)
	}
	return dir != nil && dir.ID == top
}

// charge adds to what a directory takes. Of a whole tree that comes or goes it is not known what is there.
func (v *surveys) charge(dir *inode, tree bool, more func() usage) {
	is := func(y *survey) bool { return y.Directory == dir.ID }
	switch {
	case !slices.ContainsFunc(v.all, is):
	case tree:
		v.end(is)
	default:
		for _, y := range v.all {
			if is(y) {
				y.Since = y.Since.plus(more())
			}
		}
		v.keep()
	}
}

// measure has it known what a directory takes, by a survey or by a look at all of it, if that is not much.
func measure(s *state, n *inode) error {
	if s.rules <= version3 || !n.Directory || n.limited() {
		return nil
	}
	if _, is := s.known[n.ID]; is {
		return nil
	}
	if y := surveysOf(s.records).find(s.seen, s.caller, n); y != nil {
		s.known[n.ID] = usage{s.seen.Names, s.seen.Space}.plus(y.Since)
		return nil
	}
	u, err := s.through(n, 0, false)
	if err == nil {
		s.known[n.ID] = u
	}
	return err
}
