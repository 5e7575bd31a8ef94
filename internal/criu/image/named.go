package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Named returns the paths of what a directory has by names that match a pattern, in order; none if it is not there. Unlike
// filepath.Glob it does not take the directory's own name for a pattern, and tells when it cannot look.
func Named(dir, pattern string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		match, err := filepath.Match(pattern, e.Name())
		if err != nil {
			return nil, err
		}
		if match {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}
