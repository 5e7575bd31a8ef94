package statedir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Tasks returns where each task has a directory.
func Tasks(dir string) string { return filepath.Join(dir, "tasks") }

// Streams returns where each stream has a directory.
func Streams(dir string) string { return filepath.Join(dir, "streams") }

// Checkpoints returns where the default checkpoint store is.
func Checkpoints(dir string) string { return filepath.Join(dir, "checkpoints") }

// Scratch returns where restores decompress.
func Scratch(dir string) string { return filepath.Join(dir, "scratch") }

// StreamSocket returns where consumers of streams connect.
func StreamSocket(dir string) string { return filepath.Join(dir, "stream.sock") }

// AttachSocket returns where the processes of containers of another scheduler connect.
func AttachSocket(dir string) string { return filepath.Join(dir, "attach.sock") }

// Make makes the state directory and what is in it. Tasks of other users
// must be able to reach their own directories by name, and nothing else.
func Make(dir string) error {
	dirs := []struct {
		path string
		mode fs.FileMode
	}{
		{dir, 0o711},
		{Tasks(dir), 0o711},
		{Scratch(dir), 0o700},
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return fmt.Errorf("make the state directory: %w; choose another with --state-dir", err)
		}
		st, err := os.Stat(dir.path)
		if err != nil {
			return fmt.Errorf("look at the state directory: %w", err)
		}
		if st.Mode().Perm() == dir.mode {
			continue
		}
		if err := os.Chmod(dir.path, dir.mode); err != nil {
			return fmt.Errorf("protect the state directory: %w; choose one of your own with --state-dir", err)
		}
	}
	return nil
}
