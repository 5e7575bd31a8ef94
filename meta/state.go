package meta

import (
	"context"
	"fmt"
	"iter"
)

// records are a state as one command or query reads and writes it, whoever asks.
type records struct {
	v       View
	config  Config
	next    *counters        // nil until one is taken
	rules   byte             // by which a command is applied
	known   map[uint64]usage // what directories take, as far as it was found out
	surveys *surveys         // nil until they are read
	// Every inode is in memory once, however it was reached.
	loaded map[uint64]*inode
}

// state is a state as somebody sees it at some time.
type state struct {
	*records
	now     int64 // ms
	caller  Caller
	context context.Context // of a query, or nil
	looked  int             // how often it was asked whether that has ended
	seen    *Seen           // of a command
}

// A Caller is who asks.
type Caller struct {
	User   string
	Groups []string
	Super  bool // may do all
}

func (a *Caller) code(c *coder) { text(c, &a.User); texts(c, &a.Groups); c.flag(&a.Super) }

// load reads a record, if there is one. A record that cannot be read is the end: whoever
// went on would make a state that differs from that of others.
func (s *records) load(k []byte, v coded) bool {
	b := s.v.Get(k)
	if b == nil {
		return false
	}
	if err := decode(recordVersion, b, v); err != nil {
		panic(fmt.Sprintf("meta: the record at %q cannot be read: %v", k, err))
	}
	return true
}

func (s *records) store(k []byte, v coded) { s.v.Set(k, encode(recordVersion, v)) }

// open reads what commands and queries need first.
func open(v View, now int64, by Caller) *state {
	s := &state{records: &records{v: v, loaded: map[uint64]*inode{}, known: map[uint64]usage{}}, now: now, caller: by}
	if !s.load(key(keyConfig, 0), &s.config) {
		panic("meta: there is no file system in this state: see Format")
	}
	return s
}

// counters are those of the shard, which queries do not want.
func (s *records) counters() *counters {
	if s.next == nil {
		s.next = &counters{}
		if !s.load(key(keyConfig, 1), s.next) {
			panic("meta: the state has no counters")
		}
	}
	return s.next
}

// take returns the next of a counter's numbers.
func (s *records) take(counter *uint64) uint64 {
	n := *counter
	*counter++
	s.store(key(keyConfig, 1), s.next)
	return n
}

// entry is what a directory has under a name.
type entry struct {
	Directory uint64 // 0 for a file
	File      inode
}

func (e *entry) code(c *coder) {
	number(c, &e.Directory)
	if e.Directory == 0 {
		e.File.code(c)
	}
}

// child returns what a directory has under a name, or nil.
func (s *records) child(dir *inode, name string) *inode {
	var e entry
	if !s.load(entryKey(dir.ID, name), &e) {
		return nil
	}
	return s.entered(&e, dir.ID, name)
}

func (s *records) entered(e *entry, dir uint64, name string) *inode {
	if e.Directory != 0 {
		return s.directory(e.Directory)
	}
	if n := s.loaded[e.File.ID]; n != nil {
		return n
	}
	n := &e.File
	n.Parent, n.Name, n.charged = dir, name, n.File.space()
	s.loaded[n.ID] = n
	return n
}

// children calls each for what is in a directory, in HDFS's order, after a name, until it
// returns false.
func (s *records) children(dir *inode, startAfter string, each func(*inode) bool) {
	for name, e := range entriesOf(s.v, dir.ID, entriesAfter(dir.ID, startAfter)) {
		if !each(s.entered(e, dir.ID, name)) {
			return
		}
	}
}

func entriesAfter(dir uint64, name string) []byte {
	if name == "" {
		return key(keyEntry, dir)
	}
	return append(entryKey(dir, name), 0)
}

// entriesOf yields what a directory has under its names, in HDFS's order, from a key on.
func entriesOf(v View, dir uint64, from []byte) iter.Seq2[string, *entry] {
	return func(yield func(string, *entry) bool) {
		for k, b := range v.Scan(from, after(key(keyEntry, dir))) {
			e := &entry{}
			if err := decode(recordVersion, b, e); err != nil {
				panic(fmt.Sprintf("meta: the record at %q cannot be read: %v", k, err))
			}
			if !yield(nameOf(k), e) {
				return
			}
		}
	}
}

// look calls each for what is in a directory, in the order of children, after a name, until it returns false. Of what was not known before nothing is
// remembered, as there may be very many, and nothing may be changed.
func (s *records) look(dir uint64, startAfter string, each func(*inode) bool) {
	for name, e := range entriesOf(s.v, dir, entriesAfter(dir, startAfter)) {
		n := s.loaded[e.File.ID]
		switch {
		case e.Directory != 0:
			n = s.peek(e.Directory)
		case n == nil:
			n = &e.File
			n.Parent, n.Name = dir, name
		}
		if !each(n) {
			return
		}
	}
}

// peek is directory, and remembers nothing either.
func (s *records) peek(id uint64) *inode {
	if n := s.loaded[id]; n != nil {
		return n
	}
	n := &inode{}
	if !s.load(key(keyDirectory, id), n) {
		return nil
	}
	return n
}

// directory returns the one with a number, or nil.
func (s *records) directory(id uint64) *inode {
	n := s.peek(id)
	if n != nil {
		s.loaded[id] = n
	}
	return n
}

// byNumber returns a file or directory, or nil.
func (s *records) byNumber(id uint64) *inode {
	if n := s.directory(id); n != nil {
		return n
	}
	var p place
	if !s.load(key(keyFile, id), &p) {
		return nil
	}
	return s.child(&inode{ID: p.Parent}, p.Name)
}

// save writes an inode where it is, and what a file takes more or less.
func (s *records) save(n *inode) {
	if n.Directory {
		s.store(key(keyDirectory, n.ID), n)
		surveysOf(s).changed(n)
		return
	}
	s.store(entryKey(n.Parent, n.Name), &entry{File: *n})
	if more := n.File.space() - n.charged; more != 0 {
		n.charged += more
		s.charge(s.directory(n.Parent), nil, false, func() usage { return usage{space: more} })
	}
}

// link enters an inode into a directory. One that comes from elsewhere below upTo is new to what is below that only.
func (s *records) link(dir, n *inode, name string, upTo *inode) {
	n.Parent, n.Name = dir.ID, name
	if !n.Directory {
		n.charged = n.File.space() // which is charged below
	}
	s.loaded[n.ID] = n
	s.save(n)
	if n.Directory {
		s.store(entryKey(dir.ID, name), &entry{Directory: n.ID})
	} else {
		s.store(key(keyFile, n.ID), &place{dir.ID, name})
	}
	dir.Children++
	s.save(dir)
	s.charge(dir, upTo, n.Children > 0, func() usage { return s.usage(n) })
}

// unlink takes an inode out of its directory. It stays below upTo.
func (s *records) unlink(dir, n, upTo *inode) {
	s.v.Delete(entryKey(dir.ID, n.Name))
	if dir.Children--; dir.Children == 0 {
		dir.Height = 0
	}
	s.save(dir)
	s.charge(dir, upTo, n.Children > 0, func() usage { return usage{}.minus(s.usage(n)) })
}

// touch sets the time when a directory was modified, which does not go back.
func (s *records) touch(dir *inode, at int64) {
	if at > dir.Modified {
		dir.Modified = at
	}
	s.save(dir)
}
