package linux

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDeleteTableThatIsNotThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change tables")
	}
	switch err := deleteTable("headrace-test-never"); {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		t.Skipf("there is no nftables here: %v", err)
	case !errors.Is(err, unix.ENOENT):
		t.Errorf("got %v, want ENOENT", err)
	}
	if err := DeleteTable("headrace-test-never"); err != nil {
		t.Error(err)
	}
}

// TestTables: whatever there is, tables can be listed, and one that is not there holds nothing.
func TestTables(t *testing.T) {
	tables, err := Tables()
	if err != nil || slices.Contains(tables, "") {
		t.Errorf("%q, %v", tables, err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may look into tables")
	}
	switch list, err := InSet("headrace-test-never", "conns4"); {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		t.Skipf("there is no nftables here: %v", err)
	case err != nil || len(list) > 0:
		t.Errorf("in a table that is not there: %v, %v", list, err)
	}
}

// What the kernel has answered about a set with one connection.
const (
	answer4 = "0100000621000100435249552d3031323334353637383961626364656630313233343536000000000b000200636f6e6e73340000" +
		"200003001c00010018000100140001007f000001005000000a01020312340000"
	answer6 = "0100000621000100435249552d3031323334353637383961626364656630313233343536000000000b000200636f6e6e73360000" +
		"3800030034000100300001002c0001000000000000000000000000000000000100500000fe80000000000000000000000000000512340000"
)

func TestConnectionOf(t *testing.T) {
	for text, want := range map[string]Connection{
		answer4: {netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("10.1.2.3:4660")},
		answer6: {netip.MustParseAddrPort("[::1]:80"), netip.MustParseAddrPort("[fe80::5]:4660")},
	} {
		body, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		element := netlinkAttribute(netlinkAttribute(body[sizeofNfgenmsg:], unix.NFTA_SET_ELEM_LIST_ELEMENTS), unix.NFTA_LIST_ELEM)
		got, ok := connectionOf(netlinkAttribute(netlinkAttribute(element, unix.NFTA_SET_ELEM_KEY), unix.NFTA_DATA_VALUE))
		if !ok || got != want {
			t.Errorf("%v, %v; want %v", got, ok, want)
		}
		for n := range body { // an answer that is cut short is no reason to panic
			netlinkAttribute(netlinkAttribute(body[:n], unix.NFTA_SET_ELEM_LIST_ELEMENTS), unix.NFTA_LIST_ELEM)
		}
	}
	for n := range 50 {
		if _, ok := connectionOf(make([]byte, n)); ok != (n == 16 || n == 40) {
			t.Errorf("%d bytes are a connection: %v", n, ok)
		}
	}
}
