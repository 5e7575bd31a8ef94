package meta

import "iter"

// directives yields all directives from a number on, in the order of numbers.
func (s caches) directives(from int64) iter.Seq[CacheDirective] {
	return func(yield func(CacheDirective) bool) {
		for _, b := range s.v.Scan(key(keyDirective, uint64(max(from, 0))), []byte{keyDirective + 1}) {
			var d CacheDirective
			if err := decode(recordVersion, b, &d); err != nil {
				panic("meta: a cache directive cannot be read: " + err.Error())
			}
			if !yield(d) {
				return
			}
		}
	}
}

// mostCacheListed is how many pools or directives a page has (dfs.namenode.list.cache.pools.num.responses and that of directives).
const mostCacheListed = 100

// A CacheFilter says which directives are asked for.
type CacheFilter struct {
	ID         *int64
	Path, Pool *string
	ByCopies   bool // which HDFS refuses
}

// CacheDirectives returns the directives after a number that the caller may see, as many as a page has, and whether there are more.
func (q Query) CacheDirectives(after int64, f CacheFilter) (page []CacheDirective, more bool, err error) {
	s := caches{q.state()}
	path := ""
	if f.Path != nil {
		if path, err = cachePath(*f.Path); err != nil {
			return nil, false, err
		}
	}
	if f.ByCopies {
		return nil, false, fail(classInvalidRequest, "Filtering by replication is unsupported.")
	}
	if f.ID != nil {
		if *f.ID <= 0 || s.v.Get(key(keyDirective, uint64(*f.ID))) == nil {
			return nil, false, fail(classInvalidRequest, "Did not find requested id %d", *f.ID)
		}
		after = *f.ID - 1
	}
	for d := range s.directives(after + 1) {
		switch {
		case len(page) == mostCacheListed:
			return page, true, nil
		case f.ID != nil && d.ID != *f.ID:
			return page, false, nil
		case f.Pool != nil && d.Pool != *f.Pool, path != "" && d.Path != path:
		case s.mayUse(s.pool(d.Pool), Read):
			page = append(page, d)
		}
	}
	return page, false, nil
}

// A SeenPool is a pool as somebody may see it: of one that they may not read there is only the name.
type SeenPool struct {
	CachePool
	All bool
}

// CachePools returns the pools after a name, as many as a page has, and whether there are more.
func (q Query) CachePools(after string) (page []SeenPool, more bool) {
	s := caches{q.state()}
	from := poolKey(after)
	if after != "" {
		from = append(from, 0)
	}
	for _, b := range s.v.Scan(from, []byte{keyPool + 1}) {
		var p SeenPool
		if err := decode(recordVersion, b, &p.CachePool); err != nil {
			panic("meta: a cache pool cannot be read: " + err.Error())
		}
		if len(page) == mostCacheListed {
			return page, true
		}
		if p.All = s.mayUse(&p.CachePool, Read); !p.All {
			p = SeenPool{CachePool: CachePool{Name: p.Name}}
		}
		page = append(page, p)
	}
	return page, false
}

// CacheUse is what a directive or a pool wants in memory, and what of that is there, of all copies. A file is there when all copies are that are wanted.
type CacheUse struct{ BytesNeeded, BytesCached, FilesNeeded, FilesCached int64 }

// CacheUses is what all of them want and have.
type CacheUses struct {
	Changes    uint64 // what CacheChanges returns of the same state
	Passed     int    // directives of which nothing was looked at
	Directives map[int64]CacheUse
	Pools      map[string]CacheUse
}

// CacheChanges returns a number that is another one when pools or directives are others.
func (q Query) CacheChanges() uint64 { return caches{q.state()}.numbers().Changes }

// mostCacheLooked is how many files are looked through before no other directive is: a look keeps the state as it was from being let go.
const mostCacheLooked = 2_000_000

// CacheUses looks through the files of all directives that have not expired, the oldest first, until they were very many (CacheReplicationMonitor.rescanCacheDirectives). Each finished block that is to be
// in memory is wanted, with how many copies, once for each directive: what would exceed the limit of its pool is not. kept returns how many copies of a block are in memory.
func (q Query) CacheUses(kept func(block uint64) int, want func(p Placed, copies int)) (*CacheUses, error) {
	s := caches{q.state()}
	s.caller.Super = true // whoever has put the directive there need not be asked
	u := &CacheUses{Changes: s.numbers().Changes, Directives: map[int64]CacheUse{}, Pools: map[string]CacheUse{}}
	looked := 0
	for d := range s.directives(0) {
		switch {
		case d.Expires <= q.Time:
			continue
		case looked >= mostCacheLooked:
			u.Passed++
			continue
		}
		limit := s.pool(d.Pool).Limit
		var all CacheUse
		pool := u.Pools[d.Pool]
		err := s.files(d.Path, func(n *inode) {
			looked++
			needed, cached := n.File.settled()*d.Replication, int64(0)
			all.FilesNeeded, all.BytesNeeded = all.FilesNeeded+1, all.BytesNeeded+needed
			pool.FilesNeeded, pool.BytesNeeded = pool.FilesNeeded+1, pool.BytesNeeded+needed
			if pool.BytesNeeded > limit {
				return
			}
			s.blocks(n, func(b *block) bool {
				if b.State == complete {
					cached += min(int64(kept(b.ID)), d.Replication) * b.Size
					want(placed(n, b), int(d.Replication))
				}
				return true
			})
			all.BytesCached, pool.BytesCached = all.BytesCached+cached, pool.BytesCached+cached
			if cached == needed {
				all.FilesCached, pool.FilesCached = all.FilesCached+1, pool.FilesCached+1
			}
		})
		if err != nil {
			return nil, err
		}
		u.Directives[d.ID], u.Pools[d.Pool] = all, pool
	}
	return u, nil
}

// files calls each for the files of a directive's path. An error is only that nobody waits any more.
func (s caches) files(path string, each func(*inode)) (err error) {
	t, unresolved := s.resolve(path, toRead)
	if unresolved != nil || t.last() == nil {
		return s.ended()
	}
	if n := t.last(); !n.Directory {
		each(n)
		return s.ended()
	}
	s.look(t.last().ID, "", func(n *inode) bool {
		if !n.Directory {
			each(n)
		}
		err = s.ended()
		return err == nil
	})
	return err
}

// CacheRoom notes in a command what one copy of its path takes, and returns the pool of whose limit that is a matter; "" when of none.
func (q Query) CacheRoom(o *ChangeCacheDirective) (pool string, err error) {
	if o.Force || o.Pool == nil {
		return "", nil
	}
	s := caches{q.state()}
	s.caller.Super = true
	p, path := s.pool(*o.Pool), ""
	if o.ID != nil {
		var d CacheDirective
		s.load(key(keyDirective, uint64(*o.ID)), &d)
		path = d.Path
	}
	given(&path, o.Path)
	if p == nil || p.Limit == NoCacheLimit || !validName(path) {
		return "", nil
	}
	o.Size = 0
	err = s.files(path, func(n *inode) { o.Size += n.File.size() })
	return p.Name, err
}
