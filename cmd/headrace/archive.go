package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"headrace/cli"
	"headrace/internal/criu"
	"headrace/proc/archive"
	"headrace/solo"
)

const (
	// sweepEvery is how often a node looks after what died machines have left in the
	// archive; sweepAgain how soon it looks again when it could not.
	sweepEvery = 5 * time.Minute
	sweepAgain = 30 * time.Second
	// archiveTime is how long the start of a node waits to learn about a directory: a
	// file server that is away may not answer at all.
	archiveTime = 5 * time.Second
)

// watchedArchive knows what is wrong with an archive.
type watchedArchive struct {
	*solo.Archive
	mu      sync.Mutex
	problem string
}

// Problem is why the archive could not be used when it was last looked at; empty when
// it could.
func (w *watchedArchive) Problem() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problem
}

// newArchive is for DIR or webhdfs://[USER@]HOST:PORT/DIR, with ",zstd" behind it
// compressed. What cannot be an archive is an error. A place that cannot be reached now
// is none, since containers do not wait for it: it is opened when it is needed.
func newArchive(spec, token, node string, c *solo.Config) (*watchedArchive, error) {
	where, compressed := strings.CutSuffix(spec, ",zstd")
	place, err := archivePlace(where)
	if err != nil {
		return nil, err
	}
	o := &archive.Observer{Shim: c.Shim}
	if found, err := criu.Find(); err == nil && c.CRIU != "" {
		o.CRIU = found.Version.String()
	}
	return &watchedArchive{Archive: &solo.Archive{Name: where, Observer: o, Node: node, Open: func(ctx context.Context) (*archive.Archive, error) {
		p, err := place(ctx)
		if err != nil {
			return nil, err
		}
		return archive.New(ctx, p, []byte(token), archive.Options{Compress: compressed})
	}}}, nil
}

// archivePlace says how to reach the place of an archive.
func archivePlace(where string) (func(context.Context) (archive.Place, error), error) {
	if filepath.IsAbs(where) {
		if err := checkShared(where); err != nil {
			return nil, cli.UsageErrorf("--archive: %w", err)
		}
		return func(context.Context) (archive.Place, error) { return shared(where) }, nil
	}
	u, err := url.Parse(where)
	if err == nil {
		if _, secret := u.User.Password(); secret {
			return nil, cli.UsageErrorf("--archive: WebHDFS takes no password; give webhdfs://[USER@]HOST:PORT/DIR")
		}
	}
	if err != nil || u.Scheme != "webhdfs" || u.Hostname() == "" || u.Port() == "" || path.Clean("/"+u.Path) == "/" || u.RawQuery+u.Fragment != "" {
		return nil, cli.UsageErrorf("--archive %q: give an absolute DIR, or webhdfs://[USER@]HOST:PORT/DIR", where)
	}
	name := u.User.Username()
	if name == "" {
		who, err := user.Current()
		if err != nil {
			return nil, err
		}
		name = who.Username
	}
	hdfs := archive.HDFS{NameNodes: []string{"http://" + u.Host}, Dir: path.Clean(u.Path), User: name}
	return func(ctx context.Context) (archive.Place, error) { return archive.WebHDFS(ctx, hdfs) }, nil
}

// shared is the archive in a directory. The directory is never made here: where it is
// missing its file system is not mounted, and what was put below the mount point
// nobody else would see.
func shared(dir string) (archive.Place, error) {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; mount its file system; if it was never made, make it there once, on one machine: mkdir -m 700 %s", err, dir)
	case err != nil:
		return nil, err
	case !st.IsDir():
		return nil, fmt.Errorf("%s is no directory; give one that all nodes mount and that is yours alone", dir)
	case st.Mode()&os.ModeSticky != 0:
		return nil, fmt.Errorf("%s is everybody's; give a directory that is yours alone", dir)
	}
	return archive.Dir(dir)
}

// checkShared says what is wrong with a directory, if it will not pass by itself.
func checkShared(dir string) error {
	found := make(chan error, 1)
	go func() {
		_, err := shared(dir)
		found <- err
	}()
	select {
	case err := <-found:
		if mayPass(err) {
			return nil
		}
		return err
	case <-time.After(archiveTime):
		return nil
	}
}

// mayPass reports whether an error is about the moment, such as a file system that is
// not mounted, away or full, and not about the place itself.
func mayPass(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err == nil
	}
	switch errno {
	case syscall.ENOTDIR, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL:
		return false
	}
	return true
}

// watch looks after the archive until ctx ends.
func (w *watchedArchive) watch(ctx context.Context, log *slog.Logger) {
	for {
		swept, err := w.Sweep(ctx)
		if ctx.Err() != nil {
			return
		}
		w.note(err, log)
		if swept.Offered+swept.Removed > 0 {
			log.Info("left behind in the archive", "archive", w.String(), "offered again", swept.Offered, "removed", swept.Removed)
		}
		pause := sweepEvery
		if err != nil {
			pause = sweepAgain
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// note writes one line when the archive cannot be used any more, and one when it can
// again.
func (w *watchedArchive) note(err error, log *slog.Logger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.problem
	w.problem = ""
	if err != nil {
		w.problem = err.Error()
	}
	switch {
	case before == "" && err != nil:
		log.Warn("the archive cannot be used; containers go on on their own machines only, and it is tried again", "archive", w.String(), "err", err)
	case before != "" && err == nil:
		log.Info("the archive can be used again", "archive", w.String())
	}
}
