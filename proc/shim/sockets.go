package shim

import (
	"strings"

	"headrace/internal/linux"
)

// eachConnection calls do for every descriptor of the stopped tree that is a TCP connection.
func eachConnection(tree []linux.Stat, do func(linux.Descriptor, linux.Connection) error) error {
	connected, err := procs.Connections()
	if err != nil || len(connected) == 0 {
		return err
	}
	for _, p := range tree {
		open, err := procs.Descriptors(p.PID)
		if err != nil && !linux.Gone(err) {
			return err
		}
		for _, d := range open {
			inode, ok := strings.CutPrefix(d.Target, "socket:[")
			if !ok {
				continue
			}
			if c, ok := connected[strings.TrimSuffix(inode, "]")]; ok {
				if err := do(d, c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// connectionsOf returns the TCP connections of the stopped tree. Only if there are some must
// the dump hold back packets, which costs a tenth of a second and more for the firewall's
// rules.
func connectionsOf(tree []linux.Stat) (list []linux.Connection, err error) {
	err = eachConnection(tree, func(_ linux.Descriptor, c linux.Connection) error {
		list = append(list, c)
		return nil
	})
	return list, err
}
