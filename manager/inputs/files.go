package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"headrace/hdfs"
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
	// maxJobs is about how many jobs one question may be. maxPaths, maxPathBytes, maxFiles and maxFound (blocks, unless a job may have another number) bound
	// what one request may be about; maxProblems is how many files an answer names with what is wrong with them.
	maxJobs      = 10_000
	maxPaths     = 10_000
	maxPathBytes = 8 << 20
	maxFiles     = 100_000
	maxFound     = 500_000
	maxProblems  = 20
	// lookups is how many paths or files of a request are looked up at a time; of requests with paths userRequests of a user are
	// answered at a time and maxWaiting more wait, and the paths of maxLookups of all users are looked up.
	// userBytes and allBytes bound the paths of those that are answered or wait.
	lookups      = 8
	userRequests = 2
	userBytes    = 32 << 20
	allBytes     = 256 << 20
	maxWaiting   = 60
	maxLookups   = 16
)

// faults are paths of which not everything was found.
type faults struct {
	failed   uint32
	problems []*wire.PathProblem // some of them
	err      error               // of the first of them
}

func (p *faults) problem(path string, err error) {
	if p.failed++; p.err == nil {
		p.err = err
	}
	if len(p.problems) < maxProblems {
		reason := err.Error()
		if err, is := errors.AsType[*connect.Error](err); is { // its code is for programs
			reason = err.Message()
		}
		p.problems = append(p.problems, &wire.PathProblem{Path: path, Reason: reason})
	}
}

// join adds others.
func (p *faults) join(more *faults) {
	if p.failed += more.failed; p.err == nil {
		p.err = more.err
	}
	p.problems = append(p.problems, more.problems[:min(len(more.problems), maxProblems-len(p.problems))]...)
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
