package criu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stageTimeout ends a smoke test in which CRIU hangs. An emulated machine needs more than
// twenty seconds for one.
const stageTimeout = time.Minute

func init() {
	order, ok := os.LookupEnv(smokeEnv)
	if !ok || os.Getpid() != 1 {
		return
	}
	failure := runStage(order)
	if err := json.NewEncoder(os.Stdout).Encode(failure); err != nil {
		os.Exit(1)
	}
	os.Exit(0) // with the first process, everything in the pid namespace ends
}

// stage is the first process of the namespaces in which a smoke test happens.
type stage struct {
	smokeOrder
	ctx  context.Context
	addr string // where the process listens
	pid  int    // of the process, and again after its restore
}

func runStage(order string) *SmokeError {
	ctx, cancel := context.WithTimeout(context.Background(), stageTimeout)
	defer cancel()
	s := &stage{ctx: ctx}
	if err := json.Unmarshal([]byte(order), &s.smokeOrder); err != nil {
		return &SmokeError{Step: "start", Cause: err.Error()}
	}
	steps := []struct {
		name string
		run  func() error
	}{
		{"namespaces", s.privateProc}, {"start", s.start}, {"dump", s.dump}, {"restore", s.restore}, {"check", s.check},
	}
	for _, step := range steps {
		if err := step.run(); err != nil {
			return &SmokeError{Step: step.name, Cause: err.Error(), Said: LastErrors(filepath.Join(s.Dir, step.name+".log"))}
		}
	}
	return nil
}

// privateProc gives the mount namespace the /proc of the pid namespace.
func (s *stage) privateProc() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// start runs a sleep that has inherited a listening socket, and nothing else:
// what the calling program was given by its own parent was opened elsewhere.
func (s *stage) start() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close inherited files: %w", err)
	}
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	listener, err := config.Listen(s.ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	s.addr = listener.Addr().String()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer socket.Close()
	cmd := exec.Command("sleep", "3600")
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Dir = s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.pid = cmd.Process.Pid
	return nil
}

// criu runs CRIU on the test's directory. The options are those of tasks.
func (s *stage) criu(verb string, args ...string) error {
	args = append([]string{verb, "-D", s.Dir, "-o", verb + ".log", "-v2", "--file-locks", "--link-remap",
		"--tcp-established", "--network-lock", "nftables", "--manage-cgroups=ignore"}, args...)
	cmd := exec.CommandContext(s.ctx, s.CRIU, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return fmt.Errorf("CRIU did not end within %v", stageTimeout)
	case len(out) > 0:
		return fmt.Errorf("%w: %s", err, lastLine(string(out)))
	}
	return err
}

func (s *stage) dump() error {
	if err := s.criu("dump", "-t", strconv.Itoa(s.pid)); err != nil {
		return err
	}
	// Its pid is free again when it has been waited for.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.pid, &status, 0, nil); err != nil {
		return fmt.Errorf("wait for the dumped process: %w", err)
	}
	if !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the dumped process ended with %#x, not killed by CRIU", status)
	}
	if conn, err := net.Dial("tcp4", s.addr); err == nil {
		conn.Close()
		return errors.New("somebody listens where the dumped process did")
	}
	return nil
}

func (s *stage) restore() error {
	return s.criu("restore", "-d", "--restore-sibling", "--pidfile", filepath.Join(s.Dir, "pid"))
}

// check finds the process with its old pid, as a child, asleep, and listening.
func (s *stage) check() error {
	b, err := os.ReadFile(filepath.Join(s.Dir, "pid"))
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(b)); got != strconv.Itoa(s.pid) {
		return fmt.Errorf("restored as process %s, it was %d", got, s.pid)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(stat))
	if len(fields) < 4 || fields[1] != "(sleep)" || fields[3] != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("the restored process is not what was dumped: %.60s", stat)
	}
	conn, err := (&net.Dialer{}).DialContext(s.ctx, "tcp4", s.addr)
	if err != nil {
		return fmt.Errorf("the restored process does not listen: %w", err)
	}
	return conn.Close()
}
