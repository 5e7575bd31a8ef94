package linux

import (
	"errors"
	"fmt"
)

// A MissingError says that this machine or user cannot do something, and what it
// would take. It is errors.ErrUnsupported.
type MissingError struct {
	// Feature is what is missing: "cachestat(2)".
	Feature string
	// Need is what would bring it: "Linux 6.5 or newer", "CAP_BPF".
	Need string
	// Err is what the kernel said.
	Err error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not to be had: it needs %s (%v)", e.Feature, e.Need, e.Err)
}

func (e *MissingError) Unwrap() []error { return []error{errors.ErrUnsupported, e.Err} }
