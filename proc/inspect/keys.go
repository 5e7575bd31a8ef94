package inspect

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Keys returns what is lost of the session keyring that a task was given, of which root is the first process. A restore gives it another one, which is empty.
// Keyrings that processes have made for themselves only they can name.
func Keys(root int, number string) *Loss {
	id, err := strconv.Atoi(number)
	if err != nil {
		return nil
	}
	// What cannot be read, as one that was revoked, is of no use to the task either.
	if bytes, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, nil, 0); err != nil || bytes == 0 {
		return nil
	}
	return &Loss{PID: root, Comm: "init", Has: "keys in the session keyring of the task (keyctl, Kerberos), which cannot be restored; keep them in a file, or in the keyring of the user"}
}
