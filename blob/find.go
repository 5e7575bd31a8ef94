package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"headrace/hdfs"
)

// findTime is how long Find waits to learn about a directory: a file server that is
// away may not answer at all.
const findTime = 5 * time.Second

// Find says how to open the place that people call where: a DIR that is there already,
// or webhdfs://[USER@]HOST:PORT/DIR. What cannot be a place is an error. One that cannot
// be reached now is none: it is opened when it is needed.
func Find(where string) (open func(context.Context) (Place, error), err error) {
	if filepath.IsAbs(where) {
		if err := checkMounted(where); err != nil {
			return nil, err
		}
		return func(context.Context) (Place, error) { return mounted(where) }, nil
	}
	u, err := url.Parse(where)
	if err == nil {
		if _, secret := u.User.Password(); secret {
			return nil, errors.New("WebHDFS takes no password; give webhdfs://[USER@]HOST:PORT/DIR")
		}
	}
	if err != nil || u.Scheme != "webhdfs" || u.Hostname() == "" || u.Port() == "" || path.Clean("/"+u.Path) == "/" || u.RawQuery+u.Fragment != "" {
		return nil, fmt.Errorf("%q is no place; give an absolute DIR, or webhdfs://[USER@]HOST:PORT/DIR", where)
	}
	name := u.User.Username()
	if name == "" {
		who, err := user.Current()
		if err != nil {
			return nil, err
		}
		name = who.Username
	}
	client, err := hdfs.New(hdfs.Options{NameNodes: []string{"http://" + u.Host}, User: name})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Place, error) { return HDFS(ctx, client, path.Clean(u.Path)) }, nil
}

// mounted returns the place in a directory. The directory is never made here: where it
// is missing its file system is not mounted, and what was put below the mount point
// nobody else would see.
func mounted(dir string) (Place, error) {
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
	return Dir(dir)
}

// checkMounted says what is wrong with a directory, if it will not pass by itself.
func checkMounted(dir string) error {
	found := make(chan error, 1)
	go func() {
		_, err := mounted(dir)
		found <- err
	}()
	select {
	case err := <-found:
		if mayPass(err) {
			return nil
		}
		return err
	case <-time.After(findTime):
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
