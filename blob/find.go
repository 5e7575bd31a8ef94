package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"headrace/hdfs"
	"headrace/internal/accounts"
)

// findTime is how long Find waits to learn about a directory: a file server that is
// away may not answer at all.
const findTime = 5 * time.Second

// forms are what Find takes.
const forms = "give an absolute DIR, or webhdfs://[USER@]HOST:PORT/DIR, with ?principal=NAME@REALM&keytab=FILE behind it where Kerberos is"

// Find says how to open the place that people call where: a DIR that is there already,
// or webhdfs://[USER@]HOST:PORT/DIR[?principal=NAME@REALM&keytab=FILE]. What cannot be a
// place is an error. One that cannot be reached now is none: it is opened when it is needed.
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
			return nil, errors.New("WebHDFS takes no password; " + forms)
		}
	}
	if err != nil || u.Scheme != "webhdfs" || u.Hostname() == "" || u.Port() == "" || path.Clean("/"+u.Path) == "/" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is no place; %s", where, forms)
	}
	o := hdfs.Options{NameNodes: []string{"http://" + u.Host}, User: u.User.Username()}
	if o.Kerberos, err = kerberos(u.RawQuery); err != nil {
		return nil, fmt.Errorf("%q is no place: %w; %s", where, err, forms)
	}
	if o.User == "" && o.Kerberos == nil {
		who, err := accounts.Here.Self()
		if err != nil {
			return nil, err
		}
		o.User = who.Name
	}
	client, err := hdfs.New(o)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Place, error) { return HDFS(ctx, client, path.Clean(u.Path)) }, nil
}

// kerberos reads what stands behind the place's path.
func kerberos(query string) (*hdfs.Kerberos, error) {
	if query == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	for key, values := range q {
		if key != "principal" && key != "keytab" || len(values) != 1 {
			return nil, fmt.Errorf("%s is not to be there", key)
		}
	}
	return &hdfs.Kerberos{Principal: q.Get("principal"), Keytab: q.Get("keytab")}, nil
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
