package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"headrace"
	"headrace/hdfs"
	"headrace/warm/master"
)

const (
	// siblings is how many files of one directory are so much work for a name node that their directory is
	// listed instead, and passedOver how many other files are looked at there for each of them.
	siblings   = 10
	passedOver = 10
)

// found is what paths mean.
type found struct {
	faults
	files  []master.File
	most   int // blocks
	blocks int

	mu   sync.Mutex
	seen map[string]int // which path is the first that means a file of that name
}

// question is a path to be looked up with somebody's rights.
type question struct {
	place
	client *hdfs.Client
}

// name returns what a file of the question's file system is called.
func (q *question) name(path string) string { return q.root + path }

// meaning is what a path means.
type meaning struct {
	faults
	files []string // paths in the file system
}

// find looks paths up with a user's rights. It waits for its turn; done ends that, when what was found is not needed any
// more: that may be 100 MB.
func (in *Inputs) find(ctx context.Context, user string, paths []string) (f *found, done func(), err error) {
	bytes := 0
	for _, p := range paths {
		if bytes += len(p); len(p) > maxName+hdfs.MaxPath { // the file system's name stands before
			return nil, nil, invalid("a path of %d bytes, %.40q...: no path in HDFS has more than %d", len(p), p, hdfs.MaxPath)
		}
	}
	switch {
	case len(paths) == 0:
		return nil, nil, invalid("no path is given")
	case len(paths) > maxPaths, bytes > maxPathBytes:
		return nil, nil, invalid("%d paths of %d bytes; at most %d of %d are allowed: name directories or patterns", len(paths), bytes, maxPaths, maxPathBytes)
	}
	if err := in.asking.Take(user, int64(bytes)); err != nil {
		return nil, nil, coded(err)
	}
	end, err := in.requests.Begin(ctx, user)
	if err != nil {
		in.asking.Give(user, int64(bytes))
		return nil, nil, coded(err)
	}
	done = func() { end(); in.asking.Give(user, int64(bytes)) }
	f = &found{seen: map[string]int{}, most: cmp.Or(int(in.cfg.Master.PerJob), maxFound)}
	if err = f.lookUp(ctx, in, user, paths); err != nil {
		done()
		return nil, nil, err
	}
	return f, done, nil
}

// questions returns what to ask about paths, but for those of which nothing can be asked: a job may read one of a file system
// that is not known here, too. It fails when there is nothing else.
func (f *found) questions(in *Inputs, user string, paths []string) ([]question, error) {
	clients, all := map[*FileSystem]*hdfs.Client{}, make([]question, 0, len(paths))
	for _, p := range paths {
		at, err := in.locate(p)
		if err == nil && clients[at.fs] == nil {
			if clients[at.fs], err = at.fs.as(user); err != nil {
				err = invalid("%s: %v", p, err)
			}
		}
		if err != nil {
			f.problem(p, err)
			continue
		}
		all = append(all, question{at, clients[at.fs]})
	}
	if len(all) == 0 {
		return nil, f.err
	}
	return all, nil
}

// lookUp looks paths up, when not too many others do: several at a time, as a job may name thousands of files and be about
// to read them. What they mean is in their order.
func (f *found) lookUp(ctx context.Context, in *Inputs, user string, paths []string) error {
	select {
	case in.lookups <- struct{}{}:
		defer func() { <-in.lookups }()
	case <-ctx.Done():
		return coded(ctx.Err())
	}
	all, err := f.questions(in, user, paths)
	if err != nil {
		return err
	}
	files, meant := listed(ctx, all), make([]meaning, len(all))
	err = sideBySide(ctx, len(all), func(ctx context.Context, i int) error {
		if err := f.means(ctx, i, &all[i], files, &meant[i]); err != nil {
			return asked(all[i].name(all[i].path), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var named []question
	for i := range meant {
		f.join(&meant[i].faults)
		for _, file := range meant[i].files {
			at := all[i]
			if at.path = file; f.seen[at.name(file)] == i {
				named = append(named, at)
			}
		}
	}
	return f.ask(ctx, named)
}

// sideBySide does something n times, several at a time, until one fails.
func sideBySide(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(lookups)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		work.Go(func() error { return do(ctx, i) })
	}
	return work.Wait()
}

// listed finds files of which many are asked for by listing their directories, and returns their names. Whatever a list
// does not tell is asked for by itself.
func listed(ctx context.Context, all []question) map[string]bool {
	type directory struct {
		question
		wanted map[string]bool
	}
	dirs := map[string]*directory{}
	for _, q := range all {
		if hdfs.IsPattern(q.path) || path.Clean(q.path) != q.path || q.path == "/" {
			continue
		}
		at := path.Dir(q.path)
		d := dirs[q.name(at)]
		if d == nil {
			d = &directory{q, map[string]bool{}}
			d.path = at
			dirs[q.name(at)] = d
		}
		d.wanted[path.Base(q.path)] = true
	}
	var list []*directory
	for _, d := range dirs {
		if len(d.wanted) >= siblings {
			list = append(list, d)
		}
	}
	var mu sync.Mutex
	files := map[string]bool{}
	_ = sideBySide(ctx, len(list), func(ctx context.Context, i int) error { // who may not list may be told of files
		d := list[i]
		left := passedOver * len(d.wanted)
		for info, err := range d.client.EntriesAfter(ctx, d.path, before(slices.MinFunc(slices.Collect(maps.Keys(d.wanted)), hdfs.CompareNames))) {
			if err != nil {
				break
			}
			if d.wanted[info.Name] && !info.Dir {
				mu.Lock()
				files[d.name(path.Join(d.path, info.Name))] = true
				mu.Unlock()
			}
			delete(d.wanted, info.Name)
			if left--; left <= 0 || len(d.wanted) == 0 {
				break
			}
		}
		return nil
	})
	return files
}

// before returns a name which comes before another one that is nearly as long: of a large directory whose files are asked for in several requests
// each goes on where its own are.
func before(name string) string {
	_, last := utf8.DecodeLastRuneInString(name)
	return name[:len(name)-last]
}

// means finds out what the path of number i means, unless it is one of files.
func (f *found) means(ctx context.Context, i int, q *question, files map[string]bool, m *meaning) error {
	file := func(path string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		name := q.name(path)
		if first, seen := f.seen[name]; seen && first <= i {
			return nil
		}
		f.seen[name] = i
		if m.files = append(m.files, path); len(f.seen) > maxFiles {
			return invalid("more than %d files; ask for fewer at a time", maxFiles)
		}
		return nil
	}
	if files[q.name(q.path)] {
		return file(q.path)
	}
	return q.client.Find(ctx, []string{q.path}, hdfs.Visitor{
		File:    func(path string, _ hdfs.FileInfo) error { return file(path) },
		Problem: func(p *hdfs.Problem) error { m.problem(q.name(p.Path), p.Err); return nil },
	})
}

// ask asks for the blocks of files, until there are too many.
func (f *found) ask(ctx context.Context, files []question) error {
	var all atomic.Int64
	blocks, errs := make([][]headrace.Block, len(files)), make([]error, len(files))
	err := sideBySide(ctx, len(files), func(ctx context.Context, i int) error {
		blocks[i], errs[i] = files[i].client.Blocks(ctx, files[i].path, f.most)
		if all.Add(int64(len(blocks[i]))) > int64(f.most) || errors.Is(errs[i], hdfs.ErrManyBlocks) {
			return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("more than %d blocks; ask for fewer files at a time", f.most))
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return coded(ctx.Err())
	}
	for i := range files {
		name := files[i].name(files[i].path)
		switch {
		case errors.Is(errs[i], fs.ErrNotExist): // it has vanished
		case errs[i] != nil:
			f.problem(name, errs[i])
		default:
			f.files = append(f.files, master.File{Name: name, Blocks: blocks[i]})
			f.blocks += len(blocks[i])
		}
	}
	return nil
}
