package meta

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of pools and directives, which are those that Hadoop gives where nothing is said (CachePoolInfo, CacheDirectiveInfo.Expiration).
const (
	NoCacheLimit = maxQuota
	mostCacheTTL = 1<<61 - 1 // ms
)

// A CachePool is one of HDFS's cache pools: who may have files kept in memory by directives in it, and how much of them. Who has the right to read sees its
// directives, who has that to write changes them.
type CachePool struct {
	Name, Owner, Group string
	Mode               uint16
	Limit              int64 // bytes, of all copies in memory
	MaxTTL             int64 // ms that a directive lasts at most
	Replication        int64 // of directives that do not say one
}

func (p *CachePool) code(c *coder) {
	text(c, &p.Name)
	text(c, &p.Owner)
	text(c, &p.Group)
	number(c, &p.Mode)
	c.signed(&p.Limit)
	c.signed(&p.MaxTTL)
	c.signed(&p.Replication)
}

// A CacheDirective says that a file, or the files directly in a directory, are to be in memory on so many nodes, until it expires. There need be nothing at the
// path.
type CacheDirective struct {
	ID          int64
	Path, Pool  string
	Replication int64
	Expires     int64 // ms since 1970
}

func (d *CacheDirective) code(c *coder) {
	c.signed(&d.ID)
	text(c, &d.Path)
	text(c, &d.Pool)
	c.signed(&d.Replication)
	c.signed(&d.Expires)
}

// caches are the pools and directives of a state.
type caches struct{ *state }

// cacheNumbers are the number of the directive that was made last, and how often pools and directives were changed.
type cacheNumbers struct{ Last, Changes uint64 }

func (n *cacheNumbers) code(c *coder) { number(c, &n.Last); number(c, &n.Changes) }

func (s caches) numbers() (n cacheNumbers) {
	s.load(key(keyConfig, 4), &n)
	return n
}

// changed notes that pools or directives are others now, and returns the number for a new directive.
func (s caches) changed(more uint64) int64 {
	n := s.numbers()
	n.Last, n.Changes = n.Last+more, n.Changes+1
	s.store(key(keyConfig, 4), &n)
	return int64(n.Last)
}

func poolKey(name string) []byte { return append(key(keyPool), name...) }

func (s caches) pool(name string) *CachePool {
	p := &CachePool{}
	if !s.load(poolKey(name), p) {
		return nil
	}
	return p
}

// usable returns a pool that the caller may use so (FSPermissionChecker.checkPermission of a CachePool).
func (s caches) usable(name string, need Access) (*CachePool, error) {
	p := s.pool(name)
	if p == nil {
		return nil, fail(classInvalidRequest, "Unknown pool %s", name)
	}
	if !s.mayUse(p, need) {
		return nil, fail(classAccess, "Permission denied while accessing pool %s: user %s does not have %v permissions.", name, s.caller.User, need)
	}
	return p, nil
}

// mayUse reports whether the caller may do something with a pool. Unlike that of a file, its owner may do what the group may.
func (s caches) mayUse(p *CachePool, need Access) bool {
	has := func(shift int) bool { return Access(p.Mode>>shift)&need == need }
	owner, member := s.caller.User == p.Owner, slices.Contains(s.caller.Groups, p.Group)
	return s.caller.Super || owner && has(6) || member && has(3) || !owner && !member && has(0)
}

// ChangeCachePool adds a pool, or changes what is given of one.
type ChangeCachePool struct {
	Add                        bool
	Name                       string
	Owner, Group               *string
	Mode                       *uint16
	Limit, MaxTTL, Replication *int64
}

func (o *ChangeCachePool) code(c *coder) {
	c.flag(&o.Add)
	text(c, &o.Name)
	optional(c, &o.Owner, text[string])
	optional(c, &o.Group, text[string])
	optional(c, &o.Mode, number[uint16])
	for _, v := range []**int64{&o.Limit, &o.MaxTTL, &o.Replication} {
		optional(c, v, (*coder).signed)
	}
}

// valid is CachePoolInfo.validate.
func (o *ChangeCachePool) valid() error {
	switch {
	case o.Limit != nil && *o.Limit < 0:
		return fail(classInvalidRequest, "Limit is negative.")
	case o.Replication != nil && *o.Replication < 0:
		return fail(classInvalidRequest, "Default Replication is negative")
	case o.MaxTTL != nil && *o.MaxTTL < 0:
		return fail(classInvalidRequest, "Max relative expiry is negative.")
	case o.MaxTTL != nil && *o.MaxTTL > mostCacheTTL:
		return fail(classInvalidRequest, "Max relative expiry is too big.")
	case o.Name == "":
		return fail(classIO, "invalid empty cache pool name")
	}
	return nil
}

func (o *ChangeCachePool) apply(s *state) (Result, error) {
	c := caches{s}
	if err := s.privileged(); err != nil {
		return nil, err
	}
	verb := "modify"
	if o.Add {
		verb = "add"
	}
	if err := s.awake("Cannot %s cache pool%s", verb, o.Name); err != nil {
		return nil, err
	}
	if err := o.valid(); err != nil {
		return nil, err
	}
	p := c.pool(o.Name)
	switch {
	case o.Add && p != nil:
		return nil, fail(classInvalidRequest, "Cache pool %s already exists.", o.Name)
	case o.Add:
		p = &CachePool{Name: o.Name, Owner: s.caller.User, Mode: 0o755, Limit: NoCacheLimit, MaxTTL: mostCacheTTL, Replication: 1}
		if len(s.caller.Groups) > 0 {
			p.Group = s.caller.Groups[0]
		} else if o.Group == nil {
			return nil, fail(classIO, "There is no primary group for UGI %s (auth:SIMPLE)", s.caller.User)
		}
	case p == nil:
		return nil, fail(classInvalidRequest, "Cache pool %s does not exist.", o.Name)
	}
	given(&p.Owner, o.Owner)
	given(&p.Group, o.Group)
	given(&p.Mode, o.Mode)
	given(&p.Limit, o.Limit)
	given(&p.MaxTTL, o.MaxTTL)
	given(&p.Replication, o.Replication)
	s.store(poolKey(p.Name), p)
	c.changed(0)
	return nil, nil
}

// given sets a value to what was given, if anything was.
func given[T any](to, v *T) {
	if v != nil {
		*to = *v
	}
}

// RemoveCachePool removes a pool, with all directives in it.
type RemoveCachePool struct{ Name string }

func (o *RemoveCachePool) code(c *coder) { text(c, &o.Name) }

func (o *RemoveCachePool) apply(s *state) (Result, error) {
	c := caches{s}
	if err := s.privileged(); err != nil {
		return nil, err
	}
	if err := s.awake("Cannot modify cache pool%s", o.Name); err != nil {
		return nil, err
	}
	switch {
	case o.Name == "":
		return nil, fail(classIO, "invalid empty cache pool name")
	case c.pool(o.Name) == nil:
		return nil, fail(classInvalidRequest, "Cannot remove non-existent cache pool %s", o.Name)
	}
	for d := range c.directives(0) {
		if d.Pool == o.Name {
			s.v.Delete(key(keyDirective, uint64(d.ID)))
		}
	}
	s.v.Delete(poolKey(o.Name))
	c.changed(0)
	return nil, nil
}

// A CacheExpiry is when a directive expires: at a time in ms since 1970, or so many ms from now.
type CacheExpiry struct {
	Millis   int64
	Relative bool
}

// String is CacheDirectiveInfo.Expiration.toString, in UTC.
func (e CacheExpiry) String() string {
	if !e.Relative {
		return time.UnixMilli(e.Millis).UTC().Format("2006-01-02T15:04:05-0700")
	}
	sec := e.Millis / 1000
	return fmt.Sprintf("%03d:%02d:%02d:%02d.%03d", sec/86400, sec/3600%24, sec/60%60, sec%60, e.Millis%1000)
}

// expires returns when a directive in a pool expires (CacheManager.validateExpiryTime).
func (s caches) expires(e *CacheExpiry, p *CachePool) (int64, error) {
	if e == nil {
		return s.now + p.MaxTTL, nil
	}
	at, ttl := e.Millis, e.Millis-s.now
	if e.Relative {
		at, ttl = s.now+e.Millis, e.Millis
	}
	switch {
	case e.Millis < 0:
		return 0, fail(classInvalidRequest, "Cannot set a negative expiration: %d", e.Millis)
	case ttl > mostCacheTTL:
		return 0, fail(classInvalidRequest, "Expiration %v is too far in the future!", e)
	case ttl > p.MaxTTL:
		return 0, fail(classInvalidRequest, "Expiration %v exceeds the max relative expiration time of %d ms.", e, p.MaxTTL)
	}
	return at, nil
}

// DirectiveID is the result of ChangeCacheDirective: the number of the directive.
type DirectiveID int64

func (d *DirectiveID) code(c *coder) { c.signed((*int64)(d)) }

// ChangeCacheDirective adds a directive, or changes what is given of one.
type ChangeCacheDirective struct {
	ID          *int64 // nil: a new one
	Path, Pool  *string
	Replication *int64
	Expiry      *CacheExpiry
	// Force has the limit of the pool not asked for. Else Query.CacheRoom says what one copy of the path takes, and who proposes the command
	// what the directives of the pool take.
	Force       bool
	Size, Taken int64
}

func (o *ChangeCacheDirective) code(c *coder) {
	optional(c, &o.ID, (*coder).signed)
	optional(c, &o.Path, text[string])
	optional(c, &o.Pool, text[string])
	optional(c, &o.Replication, (*coder).signed)
	optional(c, &o.Expiry, func(c *coder, e *CacheExpiry) { c.signed(&e.Millis); c.flag(&e.Relative) })
	c.flag(&o.Force)
	c.signed(&o.Size)
	c.signed(&o.Taken)
}

func (o *ChangeCacheDirective) apply(s *state) (Result, error) {
	c := caches{s}
	if err := s.awake("Cannot add cache directive"); err != nil {
		return nil, err
	}
	d, err := o.wanted(c)
	if err != nil {
		return nil, err
	}
	if o.ID == nil {
		d.ID = c.changed(1)
	} else {
		c.changed(0)
	}
	s.store(key(keyDirective, uint64(d.ID)), d)
	id := DirectiveID(d.ID)
	return &id, nil
}

// wanted is the directive as it is to be. What is wrong is found in HDFS's order.
func (o *ChangeCacheDirective) wanted(s caches) (*CacheDirective, error) {
	if o.ID != nil {
		return o.modified(s)
	}
	switch {
	case o.Pool == nil:
		return nil, fail(classInvalidRequest, "No pool specified.")
	case *o.Pool == "":
		return nil, fail(classInvalidRequest, "Invalid empty pool name.")
	}
	p, err := s.usable(*o.Pool, Write)
	if err != nil {
		return nil, err
	}
	if o.Path == nil {
		return nil, fail(classInvalidRequest, "No path specified.")
	}
	d := &CacheDirective{Pool: p.Name, Replication: p.Replication}
	given(&d.Replication, o.Replication)
	if d.Path, err = cachePath(*o.Path); err == nil {
		err = d.replicated()
	}
	if err == nil {
		d.Expires, err = s.expires(o.Expiry, p)
	}
	if err == nil {
		err = o.fits(d, p)
	}
	return d, err
}

func (o *ChangeCacheDirective) modified(s caches) (*CacheDirective, error) {
	d, err := s.writable(*o.ID)
	if err != nil {
		return nil, err
	}
	from, e := d.Pool, &CacheExpiry{Millis: d.Expires}
	given(&d.Path, o.Path)
	given(&d.Pool, o.Pool)
	given(&d.Replication, o.Replication)
	given(e, o.Expiry)
	if d.Path, err = cachePath(d.Path); err == nil {
		err = d.replicated()
	}
	if err == nil && d.Pool == "" {
		err = fail(classInvalidRequest, "Invalid empty pool name.")
	}
	if err != nil {
		return nil, err
	}
	p := s.pool(d.Pool)
	if d.Pool != from {
		if p, err = s.usable(d.Pool, Write); err == nil {
			err = o.fits(d, p)
		}
	}
	if err == nil {
		d.Expires, err = s.expires(e, p)
	}
	return d, err
}

// cachePath is CacheManager.validatePath.
func cachePath(path string) (string, error) {
	if !validName(path) {
		return "", fail(classInvalidRequest, "Invalid path '%s'.", path)
	}
	if path == "/" {
		return path, nil
	}
	return strings.TrimSuffix(path, "/"), nil
}

// replicated is CacheManager.validateReplication.
func (d *CacheDirective) replicated() error {
	if d.Replication <= 0 {
		return fail(classInvalidRequest, "Invalid replication factor %d <= 0", d.Replication)
	}
	return nil
}

// fits is CacheManager.checkLimit.
func (o *ChangeCacheDirective) fits(d *CacheDirective, p *CachePool) error {
	if o.Force || p.Limit == NoCacheLimit || o.Taken+o.Size*d.Replication <= p.Limit {
		return nil
	}
	return fail(classInvalidRequest, "Caching path %s of size %d bytes at replication %d would exceed pool %s's remaining capacity of %d bytes.",
		d.Path, o.Size, d.Replication, p.Name, p.Limit-o.Taken)
}

// writable returns a directive that the caller may change.
func (s caches) writable(id int64) (*CacheDirective, error) {
	if id <= 0 {
		return nil, fail(classInvalidRequest, "Invalid negative ID.")
	}
	d := &CacheDirective{}
	if !s.load(key(keyDirective, uint64(id)), d) {
		return nil, fail(classInvalidRequest, "No directive with ID %d found.", id)
	}
	_, err := s.usable(d.Pool, Write)
	return d, err
}

// RemoveCacheDirective removes a directive.
type RemoveCacheDirective struct{ ID int64 }

func (o *RemoveCacheDirective) code(c *coder) { c.signed(&o.ID) }

func (o *RemoveCacheDirective) apply(s *state) (Result, error) {
	c := caches{s}
	if err := s.awake("Cannot remove cache directives"); err != nil {
		return nil, err
	}
	d, err := c.writable(o.ID)
	if err != nil {
		return nil, err
	}
	s.v.Delete(key(keyDirective, uint64(d.ID)))
	c.changed(0)
	return nil, nil
}
