package linux

import (
	"errors"
	"slices"
	"syscall"
)

// lacking are the errors that say that there is too little of something at this moment:
// descriptors, memory, processes, or room on a disk.
var lacking = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.ENOSPC, syscall.EDQUOT}

// passing are, beside those, the errors that say something of the machine at this moment and
// nothing of the file that was named.
var passing = []syscall.Errno{
	syscall.ENOBUFS, syscall.EINTR, syscall.EBUSY, syscall.EIO, syscall.EROFS, syscall.ETIMEDOUT, syscall.ESTALE, syscall.ENODEV, syscall.ENOTCONN,
	syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ECONNRESET, syscall.EREMOTEIO,
}

// Lacking reports whether there was too little of something, on the machine or within a
// limit of this process.
func Lacking(err error) bool {
	return slices.ContainsFunc(lacking, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// Passing reports whether an error may be another one, or none, when the same is
// tried later: descriptors, memory or room are used up, a device or the network
// does not answer as it should.
func Passing(err error) bool {
	return Lacking(err) || slices.ContainsFunc(passing, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
