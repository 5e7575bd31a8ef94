package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// DeleteTable deletes a table of nftables, of family inet, in this network namespace, with
// all that is in it. Where there is none it does nothing.
func DeleteTable(name string) error {
	if err := deleteTable(name); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete the table %s of nftables: %w", name, err)
	}
	return nil
}

func deleteTable(name string) error {
	// A change is a batch of messages, which is made as a whole.
	const begin, change, end = 1, 2, 3
	b := netfilterMessage(nil, begin, unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	b = netfilterMessage(b, change, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELTABLE, unix.NLM_F_ACK, unix.NFPROTO_INET, 0,
		netlinkString(unix.NFTA_TABLE_NAME, name))
	b = netfilterMessage(b, end, unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	// The first answer is an error of any of the messages, or says that all is done.
	kind, _, err := askNetlink(unix.NETLINK_NETFILTER, b)
	if err == nil && kind != unix.NLMSG_ERROR {
		err = errors.New("the kernel has given an answer of another kind")
	}
	return err
}

// Tables lists the tables of nftables, of family inet, in this network namespace. Where the
// kernel has no nftables, or does not let this process see them, there are none for it.
func Tables() (names []string, err error) {
	err = listNetfilter(unix.NFT_MSG_GETTABLE, nil, func(attributes []byte) {
		names = append(names, string(bytes.TrimRight(netlinkAttribute(attributes, unix.NFTA_TABLE_NAME), "\x00")))
	})
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list the tables of nftables: %w", err)
	}
	return names, nil
}

// InSet lists the connections that are in a set of a table of nftables, of family inet: sets
// of source address, source port, destination address and destination port. A set that is
// not there has none.
func InSet(table, set string) (list []Connection, err error) {
	which := append(netlinkString(unix.NFTA_SET_ELEM_LIST_TABLE, table), netlinkString(unix.NFTA_SET_ELEM_LIST_SET, set)...)
	err = listNetfilter(unix.NFT_MSG_GETSETELEM, which, func(attributes []byte) {
		for kind, element := range netlinkAttributes(netlinkAttribute(attributes, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			key := netlinkAttribute(netlinkAttribute(element, unix.NFTA_SET_ELEM_KEY), unix.NFTA_DATA_VALUE)
			if c, ok := connectionOf(key); ok && kind == unix.NFTA_LIST_ELEM {
				list = append(list, c)
			}
		}
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("list the set %s of the table %s of nftables: %w", set, table, err)
	}
	return list, nil
}

// connectionOf reads the key of an element. Each of its parts begins at a multiple of 4 bytes.
func connectionOf(key []byte) (c Connection, ok bool) {
	const port = 4 // as long as its part is
	if len(key) != 2*(4+port) && len(key) != 2*(16+port) {
		return c, false
	}
	end := func(part []byte) netip.AddrPort {
		address, _ := netip.AddrFromSlice(part[:len(part)-port])
		return netip.AddrPortFrom(address.Unmap(), binary.BigEndian.Uint16(part[len(part)-port:]))
	}
	return Connection{end(key[:len(key)/2]), end(key[len(key)/2:])}, true
}

// listNetfilter lists something of nftables, of family inet, and calls each with the
// attributes of every answer. A list during which something has changed is asked for anew.
func listNetfilter(kind uint16, attributes []byte, each func(attributes []byte)) error {
	message := netfilterMessage(nil, 1, unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_DUMP, unix.NFPROTO_INET, 0, attributes)
	const most = 20
	for nth := 1; ; nth++ {
		var all [][]byte
		err := listNetlink(unix.NETLINK_NETFILTER, message, func(body []byte) {
			all = append(all, bytes.Clone(body[min(len(body), sizeofNfgenmsg):]))
		})
		if errors.Is(err, errChanged) && nth < most {
			continue
		}
		for _, one := range all {
			each(one)
		}
		return err
	}
}

// sizeofNfgenmsg is the size of struct nfgenmsg, with which a message of netfilter begins.
const sizeofNfgenmsg = 4

// netfilterMessage appends a message to netfilter: struct nlmsghdr, struct nfgenmsg, and
// the attributes.
func netfilterMessage(b []byte, seq uint32, kind, flags uint16, family uint8, resource uint16, attributes []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.SizeofNlMsghdr+sizeofNfgenmsg+len(attributes)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = append(b, family, unix.NFNETLINK_V0)
	b = binary.BigEndian.AppendUint16(b, resource)
	return append(b, attributes...)
}

// netlinkString returns an attribute that is a string, padded as the next one needs it.
func netlinkString(kind uint16, s string) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(s)+1))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(append(b, s...), 0)
	return append(b, make([]byte, -len(b)&3)...)
}
