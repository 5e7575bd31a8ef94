package linux

import (
	"errors"
	"slices"
	"syscall"
)

// passing are the errors that say something of the machine at this moment and
// nothing of the file that was named.
var passing = []syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN, syscall.EINTR, syscall.EBUSY,
	syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.ETIMEDOUT, syscall.ESTALE, syscall.ENODEV, syscall.ENOTCONN,
	syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ECONNRESET, syscall.EREMOTEIO,
}

// Passing reports whether an error may be another one, or none, when the same is
// tried later: descriptors, memory or room are used up, a device or the network
// does not answer as it should.
func Passing(err error) bool {
	return slices.ContainsFunc(passing, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
