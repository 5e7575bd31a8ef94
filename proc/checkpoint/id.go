package checkpoint

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"headrace/internal/linux"
)

// idName is a file that every marked store has, and no other directory.
const idName = ".id"

// ID returns the name that Mark has given to the store in dir. It is what tells a store
// from the directory that its file system is mounted on. The error is fs.ErrNotExist
// where there is none.
func ID(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, idName))
	return strings.TrimSpace(string(b)), err
}

// Mark makes the store in dir if it is not there, and gives it a name that no other one
// has, unless it has one. It returns the name.
func Mark(dir string) (string, error) {
	if _, err := Open(dir, Options{}); err != nil {
		return "", err
	}
	if id, err := ID(dir); !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := linux.WriteFileDurably(filepath.Join(dir, idName), []byte(rand.Text()+"\n"), 0o600); err != nil {
		return "", err
	}
	return ID(dir)
}
