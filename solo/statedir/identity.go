package statedir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"headrace/internal/linux"
	"headrace/proc/checkpoint"
)

// Owner returns whose checkpoint stores are that a daemon with a state directory uses, on a host of that name. The
// file that says so is made once, and goes where the directory goes; it is none of the records,
// which may be moved away, or put back as they were before. The caller has the directory's lock.
func Owner(dir, host string) (checkpoint.Owner, error) {
	path := filepath.Join(dir, checkpoint.IdentityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(rand.Text() + "\n")
		err = linux.WriteFileDurably(path, b, 0o600)
	}
	id := strings.TrimSpace(string(b))
	if err == nil && id == "" {
		err = errors.New("it is empty; put back what was in it, or remove it: the daemon is then another one, to which its checkpoint stores do not belong")
	}
	if err != nil {
		return checkpoint.Owner{}, fmt.Errorf("who owns the checkpoint stores of this daemon: %s: %w", path, err)
	}
	return checkpoint.Owner{ID: id, Host: host, Dir: dir}, nil
}
