package wire

import (
	"os"
	"strings"
	"testing"
)

func TestNoDaemonAdvice(t *testing.T) {
	const own = "/home/ada/.local/state/headrace"
	for name, c := range map[string]struct {
		missing
		dir, want string
	}{
		"root's, with systemd": {missing{root: true, system: true, usual: true, systemd: true}, SystemStateDir,
			"start it with: systemctl start headrace (or by hand: headrace solo &)"},
		"root's, in a container": {missing{root: true, system: true, usual: true}, SystemStateDir, "start one with: headrace solo &"},
		"a user at the system's": {missing{system: true, systemd: true}, SystemStateDir, "it is root's to start: sudo systemctl start headrace"},
		"a user where both are down": {missing{usual: true, beside: true, systemd: true}, own,
			"nor does that of the machine run, which is root's to start: sudo systemctl start headrace; one of your own: headrace solo &"},
		"root's, on a node":    {missing{root: true, system: true, usual: true, systemd: true, node: true}, SystemStateDir, "start it with: systemctl start headrace-node"},
		"a user's, on a node":  {missing{system: true, systemd: true, node: true}, SystemStateDir, "it is root's to start: sudo systemctl start headrace-node"},
		"a user alone":         {missing{usual: true, systemd: true}, own, "start one with: headrace solo &"},
		"a place of one's own": {missing{root: true, systemd: true}, "/srv/x", "start one with: headrace solo --state-dir /srv/x &"},
	} {
		if got := c.advice(c.dir); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestClientDir: of a user's own daemon and the system's the one is asked that answers, also when the
// other has left its socket.
func TestClientDir(t *testing.T) {
	own, system := t.TempDir(), t.TempDir()
	expect := func(want string) {
		t.Helper()
		if got := clientDir(own, system); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	listen := func(dir string) (end func() error) {
		t.Helper()
		l, err := Listen(SocketPath(dir))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.Close
	}
	expect(own)
	endSystem := listen(system)
	expect(system)
	endOwn := listen(own)
	expect(own)
	endOwn()
	expect(system)
	endSystem()
	expect(own)
	os.Remove(SocketPath(own))
	expect(system) // it is away for a moment
}

func TestNoDaemonErrorGoesByTheUsualPlace(t *testing.T) {
	t.Setenv(StateDirEnv, "/srv/usual")
	for socket, want := range map[string]string{
		"/srv/usual/headrace.sock": "start one with: headrace solo &",
		"/srv/other/headrace.sock": "start one with: headrace solo --state-dir /srv/other &",
	} {
		if got := (&NoDaemonError{Socket: socket}).Error(); !strings.HasPrefix(got, "no daemon at "+socket+": ") || !strings.HasSuffix(got, want) && !strings.HasPrefix(got, "no daemon at "+socket+": nor ") {
			t.Errorf("%s: %q, want %q", socket, got, want)
		}
	}
}
