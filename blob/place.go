package blob

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Place is a tree of directories that all machines of a cluster reach. Names are
// relative to its top, with slashes; the top is "". What one machine has made is
// seen by the others when the call has returned. Objects are readable by their
// owner only.
//
// Errors satisfy errors.Is with fs.ErrNotExist and fs.ErrExist where that is what
// happened. All methods may be called by several goroutines at once.
type Place interface {
	// Create writes a new object in a directory that exists. The object is durable
	// when Create returns. write is called at most once; when it or Create fails, an
	// object with part of the contents may be left.
	Create(ctx context.Context, name string, write func(io.Writer) error) error
	// Open returns the contents of an object. That they end, even with io.ErrUnexpectedEOF, need not mean that the
	// object does: see List for its size.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Mkdir makes a directory, and those above it. It may exist.
	Mkdir(ctx context.Context, name string) error
	// Rename gives a directory a new name, durably and in one step: of any number of
	// renames of one directory one succeeds, and the others find that it does not
	// exist. Nobody else may ever use the new name; so Rename can find out what
	// became of a request whose answer was lost.
	Rename(ctx context.Context, from, to string) error
	// List returns what is in a directory, sorted by name.
	List(ctx context.Context, dir string) ([]Object, error)
	// Touch sets the time of modification of an object to Now.
	Touch(ctx context.Context, name string) error
	// Remove removes an object, or a directory with all that is in it, not in one
	// step. It may be gone already.
	Remove(ctx context.Context, name string) error
	// Now returns the time by the clock that times of modification are from. It fails where the place's name leads to
	// another one by now: then the place is to be opened again.
	Now(ctx context.Context) (time.Time, error)
	// String names the place, for people.
	String() string
}

// An Object is something that List has found.
type Object struct {
	Name     string // in its directory
	Dir      bool
	Size     int64
	Modified time.Time
}

// checkName allows what all places can store and what cannot lead out of one.
func checkName(name string) error {
	if name == "" {
		return nil
	}
	for _, part := range strings.Split(name, "/") {
		ok := part != "" && part[0] != '.' && len(part) <= 255
		for _, c := range []byte(part) {
			ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
		}
		if !ok {
			return fmt.Errorf("%q cannot be a name in a place", name)
		}
	}
	return nil
}
