package linux

import (
	"encoding/binary"
	"errors"
	"fmt"

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

// netfilterMessage appends a message to netfilter: struct nlmsghdr, struct nfgenmsg, and
// the attributes.
func netfilterMessage(b []byte, seq uint32, kind, flags uint16, family uint8, resource uint16, attributes []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.SizeofNlMsghdr+4+len(attributes)))
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
