package mend

import (
	"fmt"
	"path/filepath"

	"headrace/internal/criu/image"
	"headrace/internal/linux"
)

// Images mends the images in a directory that criu dump has just written, while it holds the tree.
func Images(dir string, f Facts) error {
	err := sessions(filepath.Join(dir, "pstree.img"))
	if err == nil {
		err = calls(dir, f.Interrupted)
	}
	if err == nil {
		err = reserved(dir)
	}
	if err == nil {
		err = rings(dir, f.Copies)
	}
	if err == nil {
		err = signals(dir, f.Timers)
	}
	if err == nil {
		err = peers(filepath.Join(dir, "files.img"))
	}
	if err != nil {
		return fmt.Errorf("mend the images of a dump: %w", err)
	}
	return nil
}

// rewrite replaces an image file that is not part of a checkpoint yet.
func rewrite(path string, f *image.File) error {
	// A new file: the old one's mode is CRIU's, and a reader sees one or the other.
	return linux.ReplaceFile(path, f.Encode(), 0o600)
}
