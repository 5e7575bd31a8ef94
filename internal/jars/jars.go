package jars

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Kept returns where copies of directories of jars are that Keep has made, or else the directories themselves. What is
// beside the copies is kept with them.
func Kept(dirs ...string) []string {
	copies, err := copiesOf(dirs)
	if err != nil || !whole(dirs, copies) {
		return dirs
	}
	return copies
}

// Archive returns the path of the archive of the classes of jars: beside the directory with the first of them. It need not be there.
func Archive(dir string) string { return filepath.Join(filepath.Dir(dir), "classes.jsa") }

// Keep makes copies, unless they are there, and returns where: below $XDG_CACHE_HOME, or where caches of this user are.
func Keep(dirs ...string) ([]string, error) {
	copies, err := copiesOf(dirs)
	if err != nil || whole(dirs, copies) {
		return copies, err
	}
	place := filepath.Dir(copies[0])
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return nil, err
	}
	made, err := os.MkdirTemp(filepath.Dir(place), "new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(made)
	errs := []error{os.Chmod(made, 0o755)} // as it would be in the checkout: for whoever runs Java
	for _, dir := range dirs {
		errs = append(errs, os.CopyFS(filepath.Join(made, filepath.Base(dir)), os.DirFS(dir)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if whole(dirs, copies) { // somebody else was quicker
		return copies, nil
	}
	return copies, errors.Join(os.RemoveAll(place), os.Rename(made, place)) // of which something is missing
}

// whole reports whether copies of directories have all of their files.
func whole(dirs, copies []string) bool {
	for i, dir := range dirs {
		files, err := os.ReadDir(dir)
		for _, f := range files {
			original, e := f.Info()
			copied, e2 := os.Stat(filepath.Join(copies[i], f.Name()))
			if err = errors.Join(err, e, e2); err != nil || copied.Size() != original.Size() {
				return false
			}
		}
		if err != nil {
			return false
		}
	}
	return true
}

// copiesOf returns where copies are. They go by the names of jars, which have versions in them, and their sizes.
func copiesOf(dirs []string) ([]string, error) {
	caches, err := cacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(sum, filepath.Base(dir))
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				return nil, err
			}
			fmt.Fprintln(sum, f.Name(), info.Size())
		}
	}
	copies := slices.Clone(dirs)
	for i, dir := range dirs {
		copies[i] = filepath.Join(caches, "headrace", fmt.Sprintf("%.16x", sum.Sum(nil)), filepath.Base(dir))
	}
	return copies, nil
}

// cacheDir is where this user's caches are. Everybody can read root's, whose programs run others' Java.
func cacheDir() (string, error) {
	if os.Getenv("XDG_CACHE_HOME") == "" && os.Geteuid() == 0 {
		return "/var/cache", nil
	}
	return os.UserCacheDir()
}
