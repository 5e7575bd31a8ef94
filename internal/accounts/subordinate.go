package accounts

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// subordinates are numbers that a user may have processes with beside the own one (subuid(5), newuidmap(1)).
type subordinates struct {
	owner       string // a name or a number
	first, most uint64
}

// parseSubordinates reads /etc/subuid. Lines that are not valid are nobody's.
func parseSubordinates(text io.Reader) (all []subordinates, err error) {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(fields[1], 10, 32)
		count, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 == nil && err2 == nil && count > 0 {
			all = append(all, subordinates{fields[0], first, first + count - 1})
		}
	}
	return all, lines.Err()
}

// PayerOf returns as whose a number counts that has no account in a local file and that /etc/subuid gives to somebody: as
// that user's, or, where the user is root or no local file has the user, as the first that was given with it. Such a
// number is subordinate, unless a directory service has an account for it, which UserOf tells. Any other
// counts for itself. It does not block.
func (d *Database) PayerOf(uid uint32) (payer uint32, subordinate bool) {
	given, _ := d.subuid.read(parseSubordinates) // as far as it can be read
	for _, s := range given {
		if uint64(uid) < s.first || uint64(uid) > s.most {
			continue
		}
		users, _ := d.table("passwd")
		if _, is := users.byID[uid]; is {
			break
		}
		owner, err := ParseID(s.owner)
		if e, is := users.byName[s.owner]; is {
			owner, err = e.id, nil
		}
		if err != nil || owner == 0 {
			owner = uint32(s.first)
		}
		return owner, true
	}
	return uid, false
}
