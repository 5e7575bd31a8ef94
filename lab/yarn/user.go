package yarn

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// credential returns what a process of an account has; nil for no account.
func credential(account string) (*syscall.Credential, error) {
	if account == "" {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("run YARN as %s: only root can", account)
	}
	who, err := user.Lookup(account)
	if err != nil {
		return nil, err
	}
	groups, err := who.GroupIds()
	if err != nil {
		return nil, err
	}
	var ids []uint32
	for _, id := range append([]string{who.Uid, who.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, uint32(n))
	}
	return &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]}, nil
}
