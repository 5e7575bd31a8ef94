package meta

import (
	"bytes"
	"fmt"
	"iter"
)

// A client holds one lease for all the files it has open.

// hold gives a client a file, which is open in its name.
func (s *state) hold(holder string, n *inode) {
	var l lease
	s.load(leaseKey(holder), &l)
	if s.v.Get(heldKey(holder, n.ID)) == nil {
		l.Files++
	}
	l.Renewed = s.now
	s.store(leaseKey(holder), &l)
	s.v.Set(heldKey(holder, n.ID), nothing)
	s.v.Set(key(keyOpen, n.ID), nothing)
}

// release takes a file from its holder; it is not open any more.
func (s *records) release(n *inode) {
	if w := n.File.Writer; w != nil {
		s.letGo(w.Holder, n)
		s.v.Delete(key(keyOpen, n.ID))
		n.File.Writer = nil
	}
}

func (s *records) letGo(holder string, n *inode) {
	s.v.Delete(heldKey(holder, n.ID))
	var l lease
	if !s.load(leaseKey(holder), &l) {
		return
	}
	if l.Files--; l.Files == 0 {
		s.v.Delete(leaseKey(holder))
		return
	}
	s.store(leaseKey(holder), &l)
}

// leaseText is how HDFS shows a lease in messages about one.
func (s *records) leaseText(path string, id uint64, holder string) string {
	var l lease
	about := "Holder " + holder + " does not have any open files."
	if s.load(leaseKey(holder), &l) {
		about = fmt.Sprintf("[Lease.  Holder: %s, pending creates: %d]", holder, l.Files)
	}
	return fmt.Sprintf("%s (inode %d) %s", path, id, about)
}

// writerBy is the caller as one who has a file open.
func writerBy(s *state, holder, machine string) *writer {
	w := &writer{Holder: holder, Machine: machine}
	if s.rules > version2 {
		w.User = s.caller.User
	}
	return w
}

// allows reports whether somebody may write an open file under its holder's name. Others know such names, too.
func (w *writer) allows(by Caller) bool {
	return by.Super || w.User == "" || w.User == by.User
}

// leased returns the file at the end of a trail, if the caller has it open under the holder's name. Who has asked for it by its number has shown no right to
// anything so far: he is told neither the path nor the name of another holder, unless he could find them out.
func (s *state) leased(t *trail, id uint64, holder string) (*inode, error) {
	n := t.last()
	about := func() string {
		path := t.path()
		if s.passable(t) != nil {
			path = "a path"
		}
		return s.leaseText(path, id, holder)
	}
	switch {
	case n == nil:
		return nil, fail(classNotFound, "File does not exist: %s", about())
	case n.Directory:
		return nil, fail(classLeaseExpired, "INode is not a regular file: %s", about())
	case n.File.Writer == nil:
		return nil, fail(classLeaseExpired, "File is not open for writing: %s", about())
	case !n.File.Writer.allows(s.caller), n.File.Writer.Holder != holder && s.permit(t, demands{last: Write}) != nil:
		return nil, fail(classLeaseExpired, "Client (=%s) of user %s is not the lease owner of inode %d", holder, s.caller.User, n.ID)
	case n.File.Writer.Holder != holder:
		return nil, fail(classLeaseExpired, "Client (=%s) is not the lease owner (=%s: %s", holder, n.File.Writer.Holder, about())
	}
	return n, nil
}

// RenewLease keeps what a client has open. It is not worth an answer kept: leave Client empty.
type RenewLease struct{ Holder string }

func (o *RenewLease) code(c *coder) { text(c, &o.Holder) }

func (o *RenewLease) apply(s *state) (Result, error) {
	if err := s.awake("Cannot renew lease for %s", o.Holder); err != nil {
		return nil, err
	}
	var l lease
	if s.load(leaseKey(o.Holder), &l) {
		l.Renewed = s.now
		s.store(leaseKey(o.Holder), &l)
	}
	return nil, nil
}

// RenewLeases keeps what all clients have open. Propose it when there was nobody for a while of whom they could have asked it
// (LeaseManager.renewAllLeases, which a NameNode does that becomes active), or the clock was set.
type RenewLeases struct {
	Set bool // the clock was: some may be renewed at a time that is still to come. Then it takes long, if there are very many.
}

func (o *RenewLeases) code(c *coder) {
	if c.version > version5 {
		c.flag(&o.Set)
	}
}

func (o *RenewLeases) apply(s *state) (Result, error) {
	if s.rules > version5 {
		s.store(key(keyConfig, 5), &renewed{s.now})
		if !o.Set {
			return nil, nil
		}
	}
	var holders [][]byte
	for k := range s.v.Scan([]byte{keyLease}, []byte{keyLease + 1}) {
		holders = append(holders, bytes.Clone(k))
	}
	for _, k := range holders {
		var l lease
		if s.load(k, &l) {
			l.Renewed = s.now
			s.store(k, &l)
		}
	}
	return nil, nil
}

// renewed is when all leases were renewed last, in ms.
type renewed struct{ at int64 }

func (r *renewed) code(c *coder) { c.signed(&r.at) }

// age is for how long a lease was not renewed, in ms.
func (r renewed) age(l *lease, now int64) int64 { return now - max(l.Renewed, r.at) }

func allRenewed(s *records) (r renewed) {
	s.load(key(keyConfig, 5), &r)
	return r
}

// reclaim takes a file from its writer for another operation, if the writer has not
// renewed its lease in the soft limit (FSNamesystem.recoverLeaseInternal without force).
// It reports whether nobody has the file open now.
func (s *state) reclaim(op string, n *inode, path, holder, machine string) (bool, error) {
	w := n.File.Writer
	if w == nil {
		return true, nil
	}
	because := func(class, format string, args ...any) error {
		return fail(class, "Failed to %s %s for %s on %s because %s", op, path, holder, machine, fmt.Sprintf(format, args...))
	}
	if w.Holder == holder {
		return false, because(classBeingCreated, "%s is already the current lease holder.", holder)
	}
	var l lease
	if !s.load(leaseKey(w.Holder), &l) {
		return false, because(classBeingCreated, "the file is under construction but no leases found.")
	}
	if allRenewed(s.records).age(&l, s.now) > s.config.SoftLimit {
		closed, err := s.recover(n, path, "")
		if err != nil || closed {
			return closed, err
		}
		return false, &partial{because(classRecovering, "lease recovery is in progress. Try again later.")}
	}
	if b := n.File.lastBlock(); b != nil && b.State == underRecovery {
		return false, because(classRecovering, "another recovery is in progress by %s on %s", w.Holder, w.Machine)
	}
	return false, because(classBeingCreated, "this file lease is currently owned by %s on %s", w.Holder, w.Machine)
}

// RecoverLease takes a file from its writer, whoever that is, and closes it. The result is
// whether it is closed; if not, ask again.
type RecoverLease struct{ Path, Holder string }

func (o *RecoverLease) code(c *coder) { text(c, &o.Path); text(c, &o.Holder) }

func (o *RecoverLease) apply(s *state) (Result, error) {
	if err := s.awake("Cannot recover the lease of %s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err != nil {
		return nil, err
	}
	n, err := t.file(t.path())
	if err != nil || n.File.Writer == nil {
		return flag(err == nil), err
	}
	if err := s.permit(t, demands{last: Write}); err != nil {
		return nil, err
	}
	closed, err := s.recover(n, t.path(), o.Holder)
	return flag(closed), err
}

// system holds files whose writers have gone.
const system = "HDFS_NameNode"

// ExpireLeases begins to close the files of clients that have not renewed their lease in
// the hard limit. Propose it from time to time.
type ExpireLeases struct{ Most int } // files at once, see MostExpired

// MostExpired is how many files are to be closed by an ExpireLeases: all of each is written, with attributes of half a megabyte, and nothing else is applied meanwhile.
const MostExpired = 8

func (o *ExpireLeases) code(c *coder) { number(c, &o.Most) }

func (o *ExpireLeases) apply(s *state) (Result, error) {
	if s.awake("") != nil {
		return nil, nil
	}
	var files []*inode
	for holder := range s.expired() {
		prefix := heldKey(holder)
		for h := range s.v.Scan(prefix, after(prefix)) {
			if len(files) == o.Most {
				break
			}
			if n := s.byNumber(heldFile(h)); n != nil {
				files = append(files, n)
			}
		}
		if len(files) == o.Most {
			break
		}
	}
	for _, n := range files {
		s.expire(n)
	}
	return nil, nil
}

// expired yields who has not renewed his lease in the hard limit.
func (s *state) expired() iter.Seq[string] {
	return func(yield func(holder string) bool) {
		all := allRenewed(s.records)
		for k, v := range s.v.Scan([]byte{keyLease}, []byte{keyLease + 1}) {
			var l lease
			if err := decode(recordVersion, v, &l); err != nil {
				panic("meta: a lease cannot be read: " + err.Error())
			}
			if all.age(&l, s.now) > s.config.HardLimit && !yield(string(k[1:])) {
				return
			}
		}
	}
}

// LastRenewed returns the latest time at which leases were renewed, ms; 0 when there are none. One that is still to come is of a clock that was wrong.
func (q Query) LastRenewed() (at int64) {
	s := q.state()
	at = allRenewed(s.records).at
	for _, v := range s.v.Scan([]byte{keyLease}, []byte{keyLease + 1}) {
		var l lease
		if err := decode(recordVersion, v, &l); err != nil {
			panic("meta: a lease cannot be read: " + err.Error())
		}
		at = max(at, l.Renewed)
	}
	return at
}

// Expired reports whether ExpireLeases has something to do.
func (q Query) Expired() bool {
	s := q.state()
	for range s.expired() {
		return s.awake("") == nil
	}
	return false
}

// expire closes a file, or begins to; one that cannot be recovered is let go.
func (s *state) expire(n *inode) {
	path := ""
	if t := s.upwards(n); t != nil {
		path = t.path()
	}
	if _, err := s.recover(n, path, system); err != nil {
		s.release(n)
		s.save(n)
	}
}

// OpenFile is a file that somebody writes.
type OpenFile struct {
	ID                    uint64
	Path, Holder, Machine string
}

// OpenFiles returns those after a number, whose path is the given one or below it. Only
// who may do all may ask. More says whether there are more.
func (q Query) OpenFiles(after uint64, path string) (files []OpenFile, more bool, err error) {
	s := q.state()
	names, err := split(path)
	if err == nil {
		err = s.privileged()
	}
	if err != nil {
		return nil, false, err
	}
	for k := range s.v.Scan(key(keyOpen, after+1), []byte{keyOpen + 1}) {
		n := s.byNumber(numberAt(k, 0))
		t := s.upwards(n)
		if t == nil || !t.below(names) {
			continue
		}
		if len(files) == s.config.ListLimit {
			return files, true, nil
		}
		files = append(files, OpenFile{n.ID, t.path(), n.File.Writer.Holder, n.File.Writer.Machine})
	}
	return files, false, nil
}

// below reports whether a trail begins with names.
func (t *trail) below(names []string) bool {
	if len(t.names) < len(names) {
		return false
	}
	for i := range names {
		if t.names[i] != names[i] {
			return false
		}
	}
	return true
}
