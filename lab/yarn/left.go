package yarn

import (
	"errors"
	"path/filepath"
)

// EndProcesses ends what clusters in a directory have left that nobody has stopped,
// because the process that had started them was killed.
func EndProcesses(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, sweep(dir))
	}
	return errors.Join(errs...)
}
