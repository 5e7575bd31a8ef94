package linux

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDeleteTableThatIsNotThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change tables")
	}
	switch err := deleteTable("headrace-test-never"); {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		t.Skipf("there is no nftables here: %v", err)
	case !errors.Is(err, unix.ENOENT):
		t.Errorf("got %v, want ENOENT", err)
	}
	if err := DeleteTable("headrace-test-never"); err != nil {
		t.Error(err)
	}
}
