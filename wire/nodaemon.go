package wire

import (
	"fmt"
	"os"
	"path/filepath"
)

// NoDaemonError says that nobody listens on a socket. It comes out of every
// call of a client made with NewHTTPClient; use errors.As.
type NoDaemonError struct {
	Socket string
	Err    error
}

func (e *NoDaemonError) Error() string {
	dir := filepath.Dir(e.Socket)
	usual, err := StateDirForDaemon("")
	p := missing{root: os.Geteuid() == 0, system: dir == SystemStateDir, usual: err == nil && dir == usual}
	_, err = os.Stat("/run/systemd/system") // as sd_booted(3)
	p.systemd = err == nil
	_, err = os.Lstat(nodeEnabled)
	p.node = err == nil
	if !p.root && p.usual {
		_, err = os.Stat(SystemStateDir)
		p.beside = err == nil && !answers(SystemStateDir)
	}
	return fmt.Sprintf("no daemon at %s: %s", e.Socket, p.advice(dir))
}

func (e *NoDaemonError) Unwrap() error { return e.Err }

// nodeEnabled is there on a machine of a cluster. Its daemon uses the same state directory as
// the other service, and each stops the other.
const nodeEnabled = "/etc/systemd/system/multi-user.target.wants/headrace-node.service"

// missing is where a daemon is missing.
type missing struct {
	root bool // the caller is root
	// system: it is the one for all users. usual: a daemon that the caller starts
	// without a flag comes to be there.
	system, usual bool
	// beside: this machine has state of a daemon for all users, which does not
	// answer either.
	beside bool
	// systemd runs this machine. node: as a part of a cluster.
	systemd, node bool
}

// advice returns how the daemon of a state directory is started.
func (p missing) advice(dir string) string {
	service := "sudo headrace solo &"
	if p.systemd {
		service = "systemctl start headrace"
		if p.node {
			service += "-node"
		}
		if !p.root {
			service = "sudo " + service
		}
	}
	byHand := "headrace solo &"
	if !p.usual {
		byHand = "headrace solo --state-dir " + dir + " &"
	}
	switch {
	case p.system && p.root && p.systemd && p.node:
		return "start it with: " + service
	case p.system && p.root && p.systemd:
		return "start it with: " + service + " (or by hand: " + byHand + ")"
	case p.system && !p.root:
		return "it is root's to start: " + service
	case p.beside:
		return "nor does that of the machine run, which is root's to start: " + service + "; one of your own: " + byHand
	}
	return "start one with: " + byHand
}
