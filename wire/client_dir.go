package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// StateDirEnv names the environment variable with the state directory, for
// the daemon and its clients.
const StateDirEnv = "HEADRACE_STATE_DIR"

// SystemStateDir is where a daemon run by root keeps its state.
const SystemStateDir = "/var/lib/headrace"

// StateDirForDaemon returns where a daemon that this process starts keeps its state:
// flag, else StateDirEnv, else SystemStateDir for root and UserStateDir for
// everybody else. The result is absolute.
func StateDirForDaemon(flag string) (string, error) {
	dir, err := chosenStateDir(flag)
	if dir != "" || err != nil {
		return dir, err
	}
	if os.Geteuid() == 0 {
		return SystemStateDir, nil
	}
	return UserStateDir()
}

// StateDirForClient returns the state directory of the daemon to talk to. It is the
// one of StateDirForDaemon, except that an ordinary user who has said nothing
// and whose own daemon does not answer gets the system's if there is one.
func StateDirForClient(flag string) (string, error) {
	dir, err := chosenStateDir(flag)
	if dir != "" || err != nil {
		return dir, err
	}
	if os.Geteuid() == 0 {
		return SystemStateDir, nil
	}
	own, err := UserStateDir()
	if err != nil {
		if hasSocket(SystemStateDir) {
			return SystemStateDir, nil
		}
		return "", err
	}
	return clientDir(own, SystemStateDir), nil
}

// clientDir returns where a daemon answers, or else where there was one.
func clientDir(own, system string) string {
	for _, there := range []func(dir string) bool{answers, hasSocket} {
		for _, dir := range []string{own, system} {
			if there(dir) {
				return dir
			}
		}
	}
	return own
}

// answers reports whether somebody listens on a socket. It may be left by a daemon that was killed.
func answers(stateDir string) bool {
	conn, err := dial(context.Background(), SocketPath(stateDir))
	if err == nil {
		conn.Close()
	}
	return !errors.As(err, new(*NoDaemonError))
}

// UserStateDir returns $XDG_STATE_HOME/headrace, or ~/.local/state/headrace when
// that variable does not hold an absolute path.
func UserStateDir() (string, error) {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "headrace"), nil
	}
	home := os.Getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("find the state directory: HOME is not set to an absolute path; use --state-dir or " + StateDirEnv)
	}
	return filepath.Join(home, ".local", "state", "headrace"), nil
}

func chosenStateDir(flag string) (string, error) {
	dir := flag
	if dir == "" {
		dir = os.Getenv(StateDirEnv)
	}
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("state directory %s: %w", dir, err)
	}
	return abs, nil
}

func hasSocket(stateDir string) bool {
	info, err := os.Stat(SocketPath(stateDir))
	return err == nil && info.Mode().Type() == os.ModeSocket
}
