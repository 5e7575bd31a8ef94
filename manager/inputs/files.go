package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	"headrace"
	"headrace/hdfs"
	"headrace/warm/master"
	"headrace/wire"
)

// FileSystem is an HDFS.
type FileSystem struct {
	// Name is what follows hdfs:// in paths; empty: whatever does.
	Name string
	// NameNodes are the HTTP addresses of its name nodes.
	NameNodes []string
	// Proxy is a user who may act for others there; empty: the file system takes whoever comes
	// for who they say they are.
	Proxy string
	// Kerberos is who this is at a file system that wants proof; it acts for others there, and Proxy is empty.
	Kerberos *hdfs.Kerberos

	client *hdfs.Client // of Kerberos, Proxy, or nobody
}

// openFileSystems returns those that can be asked.
func openFileSystems(given []FileSystem) ([]FileSystem, error) {
	all := slices.Clone(given)
	seen := map[string]bool{}
	for i := range all {
		f := &all[i]
		if seen[f.Name] {
			return nil, fmt.Errorf("the file system hdfs://%s is given twice", f.Name)
		}
		seen[f.Name] = true
		o := hdfs.Options{NameNodes: f.NameNodes, Kerberos: f.Kerberos, User: f.Proxy}
		if o.User == "" && o.Kerberos == nil {
			o.User = "nobody"
		}
		var err error
		if f.client, err = hdfs.New(o); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// as returns a client that has the rights of user.
func (f *FileSystem) as(user string) (*hdfs.Client, error) {
	if f.Kerberos == nil && (f.Proxy == "" || f.Proxy == user) {
		return f.client.Of(user)
	}
	return f.client.As(user)
}

const (
	// maxPaths, maxPathBytes, maxFiles and maxFound (blocks, unless a job may have another number) bound
	// what one request may be about; maxProblems is how many files an answer names with what is wrong with them.
	maxPaths     = 10_000
	maxPathBytes = 8 << 20
	maxFiles     = 100_000
	maxFound     = 500_000
	maxProblems  = 20
	// lookups is how many files of a request are looked up at a time; of requests with paths userRequests of a user are
	// answered at a time and maxWaiting more wait, and the paths of maxLookups of all users are looked up.
	// userBytes and allBytes bound the paths of those that are answered or wait.
	lookups      = 8
	userRequests = 2
	userBytes    = 32 << 20
	allBytes     = 256 << 20
	maxWaiting   = 60
	maxLookups   = 16
)

// found is what paths mean.
type found struct {
	files    []master.File
	seen     map[string]bool // their names
	most     int             // blocks
	blocks   int
	failed   uint32
	problems []*wire.PathProblem
	err      error // of the first of them
}

func (f *found) problem(path string, err error) {
	if f.failed++; f.err == nil {
		f.err = err
	}
	if len(f.problems) < maxProblems {
		f.problems = append(f.problems, &wire.PathProblem{Path: path, Reason: err.Error()})
	}
}

// place is a path of one file system.
type place struct {
	fs   *FileSystem
	root string // hdfs://NAME
	path string
}

// locate tells which file system a URL leads to. What follows the name is taken as it is:
// it may be a pattern, in which % and ? mean what they mean there.
func (in *Inputs) locate(at string) (place, error) {
	rest, ok := strings.CutPrefix(at, "hdfs://")
	if !ok {
		return place{}, invalid("%q: give a path such as hdfs://cluster/data", at)
	}
	name, path, _ := strings.Cut(rest, "/")
	if u, err := url.Parse("hdfs://" + name); err != nil || u.User != nil {
		return place{}, invalid("%q: %q is not the name of a file system", at, name)
	}
	for _, is := range []string{name, ""} {
		if i := slices.IndexFunc(in.cfg.FileSystems, func(f FileSystem) bool { return f.Name == is }); i >= 0 {
			return place{&in.cfg.FileSystems[i], "hdfs://" + name, "/" + strings.TrimRight(path, "/")}, nil
		}
	}
	if len(in.cfg.FileSystems) == 0 {
		return place{}, connect.NewError(connect.CodeFailedPrecondition, errors.New("the manager knows no file system; start it with --hdfs"))
	}
	return place{}, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the manager knows no file system hdfs://%s; start it with --hdfs %[1]s=http://NAMENODE:9870", name))
}

// find looks paths up with a user's rights. It waits for its turn; done ends that, when what was found is not needed any
// more: that may be 100 MB.
func (in *Inputs) find(ctx context.Context, user string, paths []string) (f *found, done func(), err error) {
	bytes := 0
	for _, p := range paths {
		bytes += len(p)
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
	f = &found{seen: map[string]bool{}, most: cmp.Or(int(in.cfg.Master.PerJob), maxFound)}
	if err = f.lookUp(ctx, in, user, paths); err != nil {
		done()
		return nil, nil, err
	}
	return f, done, nil
}

// lookUp looks paths up, when not too many others do.
func (f *found) lookUp(ctx context.Context, in *Inputs, user string, paths []string) error {
	select {
	case in.lookups <- struct{}{}:
		defer func() { <-in.lookups }()
	case <-ctx.Done():
		return coded(ctx.Err())
	}
	for _, p := range paths {
		at, err := in.locate(p)
		if err != nil {
			return err
		}
		client, err := at.fs.as(user)
		if err != nil {
			return invalid("%s: %v", p, err)
		}
		if err := f.below(ctx, client, at); err != nil {
			return asked(p, err)
		}
	}
	return nil
}

// below adds what one path means.
func (f *found) below(ctx context.Context, client *hdfs.Client, at place) error {
	var names []string
	err := client.Find(ctx, []string{at.path}, hdfs.Visitor{
		File: func(path string, _ hdfs.FileInfo) error {
			if f.seen[at.root+path] {
				return nil
			}
			f.seen[at.root+path] = true
			if names = append(names, path); len(f.seen) > maxFiles {
				return invalid("more than %d files; ask for fewer at a time", maxFiles)
			}
			return nil
		},
		Problem: func(p *hdfs.Problem) error { f.problem(at.root+p.Path, p.Err); return nil },
	})
	if err != nil {
		return err
	}
	blocks, errs, err := f.ask(ctx, client, names)
	if err != nil {
		return err
	}
	for i, name := range names {
		switch {
		case errors.Is(errs[i], fs.ErrNotExist): // it has vanished
		case errs[i] != nil:
			f.problem(at.root+name, errs[i])
		default:
			f.files = append(f.files, master.File{Name: at.root + name, Blocks: blocks[i]})
			f.blocks += len(blocks[i])
		}
	}
	return nil
}

// ask asks for the blocks of files, some at a time, until there are too many.
func (f *found) ask(ctx context.Context, client *hdfs.Client, names []string) ([][]headrace.Block, []error, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all atomic.Int64
	all.Store(int64(f.blocks))
	blocks, errs := make([][]headrace.Block, len(names)), make([]error, len(names))
	next := make(chan int)
	var work sync.WaitGroup
	for range min(lookups, len(names)) {
		work.Go(func() {
			for i := range next {
				blocks[i], errs[i] = client.Blocks(ctx, names[i], f.most)
				if n := int64(len(blocks[i])); all.Add(n) > int64(f.most) || errors.Is(errs[i], hdfs.ErrManyBlocks) {
					all.Store(int64(f.most) + 1)
					cancel()
				}
			}
		})
	}
	for i := 0; i < len(names) && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	work.Wait()
	if all.Load() > int64(f.most) {
		return nil, nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("more than %d blocks; ask for fewer files at a time", f.most))
	}
	return blocks, errs, ctx.Err()
}

// asked says what came of asking a file system.
func asked(path string, err error) error {
	code := connect.CodeUnavailable
	switch {
	case errors.As(err, new(*connect.Error)):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, hdfs.ErrNoMatch):
		code = connect.CodeNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, hdfs.ErrProxy):
		code = connect.CodePermissionDenied
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	}
	return connect.NewError(code, fmt.Errorf("%s: %w", path, err))
}
