package request

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"headrace/internal/accounts"
	"headrace/proc"
)

// ErrRights: a task would run with rights that its user does not have any more.
var ErrRights = errors.New("its user has not the rights any more that it was handed in with")

// Renew gives a task the groups that its user has now, who was called user when it was handed in: a task may wait for
// long, and is not to keep rights that were taken away. It fails with ErrRights where the number is another account's by
// now, and as accounts do where nobody knows the user, who may only not be known yet. Root's tasks, and those of a number
// without a name, stay as they are. It may be called from any goroutine, and block, in the user database.
func Renew(spec *proc.Spec, user string) error {
	if os.Geteuid() != 0 || spec.UID == 0 || user == strconv.FormatUint(uint64(spec.UID), 10) {
		return nil
	}
	who, err := accounts.Here.User(user)
	switch {
	case errors.Is(err, accounts.ErrUnknown):
		if other, otherErr := accounts.Here.UserOf(spec.UID); otherErr == nil {
			return fmt.Errorf("%w: user %d was %s, and is %s now", ErrRights, spec.UID, user, other.Name)
		}
		return err
	case err != nil:
		return err
	case who.UID != spec.UID:
		return fmt.Errorf("%w: %s was user %d, and is user %d now", ErrRights, user, spec.UID, who.UID)
	}
	groups, err := accounts.Here.GroupsOf(who)
	if err != nil {
		return err
	}
	if slices.Contains(spec.Groups, spec.GID) && !slices.Contains(groups, spec.GID) {
		spec.GID = who.GID
	}
	spec.Groups = groups
	return nil
}

// MayGoOn tells why a task that has run with one specification may not go on with another, a renewed one: ErrRights, as it has
// groups that cannot be taken from it.
func MayGoOn(ran, renewed *proc.Spec) error {
	for _, g := range append([]uint32{ran.GID}, ran.Groups...) {
		if g != renewed.GID && !slices.Contains(renewed.Groups, g) && ran.UID != 0 {
			return fmt.Errorf("%w: it has those of group %d", ErrRights, g)
		}
	}
	return nil
}
