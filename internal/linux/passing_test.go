package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestPassing(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("text"), false},
		{fs.ErrNotExist, false},
		{syscall.ENOENT, false},
		{syscall.EACCES, false},
		{syscall.EMFILE, true},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EIO}, true},
		{fmt.Errorf("a: %w", errors.Join(syscall.ENOENT, syscall.ENOMEM)), true},
	} {
		if got := Passing(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
