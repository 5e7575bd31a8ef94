package yarn

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"headrace/internal/linux"
)

// maxHashed is the size up to which files are compared by their contents.
const maxHashed = 256 << 20

// Resource is a file or directory that a scheduler has put into a container's
// working directory. Two with one name and one sum are the same.
type Resource struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // of all files in it
	// Sum is a hash of the contents; of names and sizes only for a directory, and for
	// more than maxHashed bytes of the name and size.
	Sum string `json:"sum"`
	// at is where this machine has it.
	at string
}

// Localized reports whether a path is in a NodeManager's cache.
func Localized(path string) bool { return strings.Contains(path, "/filecache/") }

// Resources returns what YARN has localized for a container: the symbolic links below
// its working directory that lead into a NodeManager's cache. Files are read with the
// rights of a user; nil: those of this process.
func Resources(cwd string, as *linux.Credentials) ([]Resource, error) {
	var list []Resource
	look := func() error {
		return filepath.WalkDir(cwd, func(p string, d fs.DirEntry, err error) error {
			if err != nil && p != cwd {
				return nil // what its user cannot read was not localized
			}
			if err != nil || d.Type()&fs.ModeSymlink == 0 {
				return err
			}
			target, err := os.Readlink(p)
			if err != nil || !Localized(target) {
				return err
			}
			name, err := filepath.Rel(cwd, p)
			if err != nil {
				return err
			}
			r, err := resource(name, target)
			list = append(list, r)
			return err
		})
	}
	var err error
	if as == nil {
		err = look()
	} else {
		err = linux.AsUser(*as, look)
	}
	if err != nil {
		return nil, fmt.Errorf("files of the container in %s: %w", cwd, err)
	}
	return list, nil
}

// Find returns where this machine has what was localized under the name of a path, in
// whatever working directory that is; empty if it has nothing of that name.
func Find(resources []Resource, path string) string {
	var best Resource
	for _, r := range resources {
		if strings.HasSuffix(path, "/"+r.Name) && len(r.Name) > len(best.Name) {
			best = r
		}
	}
	return best.at
}

func resource(name, path string) (Resource, error) {
	h := sha256.New()
	r := Resource{Name: name, at: path}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, p)
		if err != nil {
			return err
		}
		var size int64 // that of a directory says nothing
		if st.Mode().IsRegular() {
			size = st.Size()
		}
		r.Size += size
		fmt.Fprintf(h, "%q %v %d\n", rel, st.Mode().Type(), size)
		if rel == "." && st.Mode().IsRegular() && size <= maxHashed {
			return hashInto(h, p)
		}
		return nil
	})
	r.Sum = hex.EncodeToString(h.Sum(nil))
	return r, err
}

func hashInto(w io.Writer, path string) error {
	f, err := linux.OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}
