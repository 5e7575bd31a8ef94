package supplement

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

func TestParseIGMP(t *testing.T) {
	// As a machine writes it that has the lowest byte first.
	got, err := parseIGMP("Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n" +
		"1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n" +
		"14\tlongername0:     2      V2\n\t\t\t\t030201EF     1 0:00000000\t\t1\n\t\t\t\t010000E0     1 0:00000000\t\t0\n")
	group := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	want := []membership{{1, group("224.0.0.1")}, {14, group("239.1.2.3")}, {14, group("224.0.0.1")}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	got, err = parseIGMP6("4    eth0            ff0200000000000000000001ff000002     1 00000004 0\n")
	if want := []membership{{4, group("ff02::1:ff00:2")}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"\n1\tlo\n", "\n\t\t\t\tXYZ     1 0:00000000\t\t0\n"} {
		if _, err := parseIGMP(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	for _, text := range []string{"4 eth0\n", "x eth0 ff0200000000000000000001ff000002 1\n", "4 eth0 ff02 1\n"} {
		if _, err := parseIGMP6(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// TestOptionsThatAreNotHere: what cannot be set is said, groups that cannot be joined are an error, and nothing is set that is no option of the
// table.
func TestOptionsThatAreNotHere(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	s := SocketOptions{Descriptor: linux.Descriptor{PID: os.Getpid(), FD: fd}, Values: map[string][]byte{
		"IP_TTL": {77, 0, 0, 0}, "TCP_USER_TIMEOUT": {1, 0, 0, 0}, "IP_UNICAST_IF": []byte("hr-none"), "SO_MARK": {1, 0, 0, 0},
	}}
	remark, err := travel(t, s).putBack()
	if err != nil || !strings.Contains(remark, "TCP_USER_TIMEOUT") || !strings.Contains(remark, "IP_UNICAST_IF (hr-none") || strings.Contains(remark, "TTL") {
		t.Errorf("remark %q, %v", remark, err)
	}
	ttl, err := unix.GetsockoptInt(fd, unix.SOL_IP, unix.IP_TTL)
	mark, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK)
	if err != nil || err2 != nil || ttl != 77 || mark != 0 {
		t.Errorf("TTL %d, mark %d, %v, %v", ttl, mark, err, err2)
	}
	s.Groups = []Group{{Interface: "hr-none", Address: netip.MustParseAddr("239.1.2.3"), Except: true}}
	if _, err := travel(t, s).putBack(); err == nil || !strings.Contains(err.Error(), "239.1.2.3 on the network interface hr-none") {
		t.Errorf("a group of an interface that is not there: %v", err)
	}
}

// TestOptionsAreTried: the program with which options are tried knows all of them.
func TestOptionsAreTried(t *testing.T) {
	program, err := os.ReadFile("../testdata/programs/options.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		if !strings.Contains(string(program), `"`+o.name+`": (`) {
			t.Errorf("it does not try %s", o.name)
		}
	}
}
