package meta

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// A Command is what is written to a log and applied to a state. It holds all that its
// effect depends on.
type Command struct {
	Time   int64  // ms since 1970, the proposer's
	Client string // who calls, to know a call that is repeated; empty: nobody will
	Call   int64
	Caller Caller
	Op     Op
	Seen   *Seen // of a survey, if Op needs one: see TooMuch

	version byte // of one that was read; 0: the newest
}

// Versions of commands. Each is encoded and applied by the rules of its own, so that what is in a log means what it has meant. The others than the first
// one are of operations that have other rules since. In the second one
//   - Append says of which block its nodes are, and how much that may have there;
//   - copies of a block count only if they have the length that is noted, and that is one that it may have;
//   - a block comes only behind one that is complete. One that is not, in a closed file from before, is like others (rests).
//
// In the third one
//   - nothing comes to lie deeper than maxDepth (shallow);
//   - who opens a file is kept, and nobody else writes it (writer);
//   - it is kept which block of its file a block is (owner);
//   - block sizes are bounded (maxBlockSize).
//
// In the fourth one
//   - what is below a directory is looked at before a command is applied, if it is much (Survey);
//   - files of many blocks that are deleted are taken apart in steps, as directories are (Sweep).
//
// In the fifth one there are cache pools and directives (ChangeCachePool and those after it).
//
// In the sixth one
//   - all leases are renewed by one record (RenewLeases);
//   - what concat moves and truncate takes off at once is bounded, also how much of the attributes of what was deleted is looked at (Sweep);
//   - whoever keeps the superuser from reading a file is its owner (SetXAttr).
//
// In the seventh one a survey gives way to those of others only when its user has most of them (Survey).
const (
	version1 = iota + 1
	version2
	version3
	version4
	version5
	version6
	version7
)

// Newest is the newest version of commands.
const Newest = version7

// since returns the version in which an operation came: one without it has no old way of doing it.
func (m Command) since() byte {
	switch m.Op.(type) {
	case *ChangeCachePool, *RemoveCachePool, *ChangeCacheDirective, *RemoveCacheDirective:
		return version5
	case *Survey:
		return version4
	}
	return version1
}

// rules returns the version by which a command is encoded and applied.
func (m Command) rules() byte {
	if m.version > 0 {
		return m.version
	}
	switch m.Op.(type) {
	case *Survey:
		return version7
	case *RenewLeases, *Concat, *Truncate, *Sweep, *SetXAttr:
		return version6
	case *ChangeCachePool, *RemoveCachePool, *ChangeCacheDirective, *RemoveCacheDirective:
		return version5
	case *Create, *Delete, *Rename, *SetQuota:
		return version4
	case *Mkdirs, *Append, *AddBlock:
		return version3
	case *Complete, *Relocate:
		return version2
	}
	return version1
}

// An Op is one of the operations of this package.
type Op interface {
	coded
	// apply checks everything in HDFS's order, and writes.
	apply(*state) (Result, error)
}

// A Result is what an operation returns: nil when there is nothing to say, else *Flag,
// *Status, *Allocated, *Appended or *DirectiveID.
type Result interface{ coded }

// Flag is the result of operations that say whether they did anything.
type Flag bool

func (f *Flag) code(c *coder) { c.flag((*bool)(f)) }

func flag(b bool) *Flag { return (*Flag)(&b) }

// ops are all operations. Their places are in logs: add at the end, and leave nil where there was one.
var ops = []Op{
	&Mkdirs{}, &Create{}, &Append{}, &AddBlock{}, &AbandonBlock{}, &NewStamp{}, &UpdatePipeline{}, &Complete{}, &Fsync{},
	&RenewLease{}, &RecoverLease{}, &Delete{}, &Rename{}, &Concat{}, &SetPermission{}, &SetOwner{}, &SetTimes{},
	&SetReplication{}, &SetXAttr{}, &RemoveXAttr{}, &ChangeACL{}, &SetSafeMode{},
	nil, &CommitRecovery{}, &ExpireLeases{}, nil, &Sweep{}, &Collected{}, &Relocate{}, &Truncate{}, &SetQuota{}, &RenewLeases{}, &Survey{},
	&ChangeCachePool{}, &RemoveCachePool{}, &ChangeCacheDirective{}, &RemoveCacheDirective{},
}

var results = []Result{new(Flag), &Status{}, &Allocated{}, &Appended{}, new(DirectiveID)}

// indexOf finds the type of a value among others, counted from 1; 0 is nil.
func indexOf[T any](among []T, v T) int {
	if any(v) == nil {
		return 0
	}
	for i := range among {
		if reflect.TypeOf(among[i]) == reflect.TypeOf(v) {
			return i + 1
		}
	}
	panic(fmt.Sprintf("meta: %T has no number", v))
}

// oneOf codes a value of one of several types.
func oneOf[T coded](c *coder, among []T, v *T) {
	i := 0
	if !c.reading {
		i = indexOf(among, *v)
	}
	number(c, &i)
	if c.reading {
		if i < 0 || i > len(among) || i > 0 && any(among[i-1]) == nil {
			c.fail()
		}
		if c.err != nil || i == 0 {
			return
		}
		*v = reflect.New(reflect.TypeOf(among[i-1]).Elem()).Interface().(T)
	}
	if i > 0 {
		(*v).code(c)
	}
}

func (m *Command) code(c *coder) {
	c.signed(&m.Time)
	text(c, &m.Client)
	c.signed(&m.Call)
	m.Caller.code(c)
	oneOf(c, ops, &m.Op)
	if c.version > version3 {
		optional(c, &m.Seen, func(c *coder, v *Seen) { v.code(c) })
	}
}

const (
	mostSources = 10_000    // of Concat
	mostXAttr   = 32 * 1024 // HDFS has no larger MaxXAttr
	mostSwept   = 4 << 20   // bytes of attributes of what one command deletes
)

var mostMoved = 20_000 // blocks that one command moves or takes off; another number in tests

// Bounded refuses what is larger than any state lets it be, so that it comes into no log: there all nodes have it, and take it up one after the other.
func (m Command) Bounded() error {
	switch o := m.Op.(type) {
	case *ChangeACL:
		if len(o.Entries) > 2*maxACL { // access entries, default ones, or both are too many
			return notTooLong(o.Entries)
		}
	case *SetXAttr:
		if size := len(o.XAttr.Name) + len(o.XAttr.Value); size > mostXAttr {
			return o.tooBig(size, mostXAttr)
		}
	case *Concat:
		if n := len(o.Sources); n > mostSources {
			return fail(classHadoopArgument, "concat: %d source files, more than %d", n, mostSources)
		}
	}
	return nil
}

// Encode returns a command for a log.
func (m Command) Encode() []byte { return encode(m.rules(), &m) }

// EncodeFor returns a command for a log that is read by whoever knows versions up to most only: one that has other rules since is by those of then.
// An operation that came later is refused.
func (m Command) EncodeFor(most byte) ([]byte, error) {
	m.version = min(m.rules(), most)
	if since := m.since(); m.version < since {
		return nil, fail(classUnsupported, "Not all nodes know %T: it takes version %d of commands, and %d is in force. Update all nodes, then: headrace dfs raise", m.Op, since, most)
	}
	return m.Encode(), nil
}

// DecodeCommand reads what Encode has written, whatever the version.
func DecodeCommand(b []byte) (Command, error) {
	m := Command{version: version1}
	if len(b) > 0 && b[0] > version1 && b[0] <= Newest {
		m.version = b[0]
	}
	err := decode(m.version, b, &m)
	if err == nil && m.Op == nil {
		err = errCode
	}
	if err != nil {
		return Command{}, err
	}
	return m, nil
}

// Apply does what a command says. It is a function of state and command: no clock, no
// chance. An error is what HDFS answers, an *Error; then nothing is written, but what HDFS
// leaves too: a lease that is being recovered, say. A call that has succeeded and is repeated gets the answer
// of the first time.
func Apply(v View, m Command) (Result, error) {
	if r, ok := answered(v, m); ok {
		return r, nil
	}
	d := newDraft(v)
	s := open(d, m.Time, m.Caller)
	s.rules, s.seen = m.rules(), m.Seen
	r, err := m.Op.apply(s)
	var some *partial
	switch {
	case errors.As(err, &some):
		err = some.error
	case err != nil:
		return nil, err
	default:
		if m.Seen != nil {
			surveysOf(s.records).end(func(y *survey) bool { return y.Number == m.Seen.Number })
		}
		s.remember(m, r)
	}
	d.keep(v)
	return r, err
}

// partial is an error after which what was written stays.
type partial struct{ error }

// A Query asks a state, as a caller.
type Query struct {
	Reader Reader
	Caller Caller
	Time   int64 // ms
	// Context, if there is one, ends what looks at much when nobody waits for it any more.
	Context context.Context
}

// state is one that a query reads; it has nowhere to write to.
func (q Query) state() *state {
	s := open(newDraft(q.Reader), q.Time, q.Caller)
	s.context = q.Context
	return s
}

// ended returns why nobody waits any more for what a query finds out, or that a command has looked at too much. It is cheap enough to be asked
// for each record.
func (s *state) ended() error {
	s.looked++
	switch {
	case s.rules > version3 && s.looked > mostLooked:
		return errTooMuch
	case s.context == nil || s.looked%1000 != 0:
		return nil
	}
	return s.context.Err()
}

// awake refuses changes in safe mode.
func (s *state) awake(format string, args ...any) error {
	if s.v.Get(key(keyConfig, 2)) == nil {
		return nil
	}
	return fail(classSafeMode, "%s. Name node is in safe mode.\nIt was turned on manually. Use \"hdfs dfsadmin -safemode leave\" to turn safe mode off.",
		fmt.Sprintf(format, args...))
}

// SetSafeMode turns safe mode, in which nothing is changed, on or off. Only who may do all may.
type SetSafeMode struct{ On bool }

func (o *SetSafeMode) code(c *coder) { c.flag(&o.On) }

func (o *SetSafeMode) apply(s *state) (Result, error) {
	if err := s.privileged(); err != nil {
		return nil, err
	}
	if o.On {
		s.v.Set(key(keyConfig, 2), nothing)
	} else {
		s.v.Delete(key(keyConfig, 2))
	}
	return flag(o.On), nil
}

// SafeMode reports whether the file system is in safe mode.
func (q Query) SafeMode() bool { return q.Reader.Get(key(keyConfig, 2)) != nil }
