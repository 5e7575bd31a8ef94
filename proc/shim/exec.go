package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// runExec becomes the command of the spec in the task's directory. What needs the
// daemon's rights comes first; everything that is the user's to name is opened
// after it has become the user.
func runExec(args []string) error {
	if len(args) != 1 {
		return errors.New("want the task's directory")
	}
	runtime.LockOSThread() // niceness is the thread's, and this one becomes the command
	unix.CloseOnExec(errorFD)
	spec, err := proc.ReadSpec(args[0])
	if err == nil {
		err = prepareExec(spec, args[0])
	}
	if err != nil {
		reportStartFailure(126, err)
		return err
	}
	env := commandEnv(spec, os.Environ())
	// Go's threads have a list of semaphores to be undone, and the command would keep it: each would look as if it used some (package
	// inspect). Where this is not allowed it does.
	unix.Unshare(unix.CLONE_SYSVSEM)
	os.Setenv("PATH", firstValue(env, "PATH")) // where the command is looked for
	code, err := linux.Become(spec.Argv, env)
	reportStartFailure(code, err)
	return err
}

// commandEnv returns the environment of the command: that of the spec, with the marks,
// by which its processes are told from others, and its pid.
func commandEnv(spec proc.Spec, marks []string) []string {
	added := slices.Clone(marks)
	if spec.PIDVar != "" {
		added = append(added, spec.PIDVar+"="+strconv.Itoa(os.Getpid()))
	}
	env := slices.DeleteFunc(taskEnv(spec.Env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(added, func(a string) bool { return strings.HasPrefix(a, name+"=") })
	})
	return append(env, added...)
}

// firstValue returns the value of a variable as getenv(3) finds it.
func firstValue(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func prepareExec(spec proc.Spec, dir string) error {
	raiseLimits(spec.Limits)
	if spec.Nice != nil {
		unix.Setpriority(unix.PRIO_PROCESS, 0, *spec.Nice) // as far as the rights go
	}
	// What the supervisor protects itself with is not for the command. Lowering it
	// again is what may be refused.
	os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(spec.OOMScoreAdj)), 0)
	if err := tell(startReport{User: true}); err != nil {
		return err
	}
	if err := becomeUser(spec, dir); err != nil {
		return err
	}
	if err := unix.Chdir(spec.Cwd); err != nil {
		return fmt.Errorf("start in directory %s: %w (does it exist, and may the user enter it?)", spec.Cwd, err)
	}
	if err := openUserFiles(spec); err != nil {
		return err
	}
	setLimits(spec.Limits)
	return nil
}

// raiseLimits makes room below the hard limits for what setLimits will set when
// this process has lost its rights. The soft limits stay: this program itself may
// need more than the command is to have.
func raiseLimits(limits []proc.Limit) {
	for _, l := range limits {
		var now unix.Rlimit
		if unix.Prlimit(0, l.Resource, nil, &now) == nil && l.Hard > now.Max {
			unix.Prlimit(0, l.Resource, &unix.Rlimit{Cur: now.Cur, Max: l.Hard}, nil) // needs CAP_SYS_RESOURCE
		}
	}
}

// setLimits sets the limits as far as the hard limits allow.
func setLimits(limits []proc.Limit) {
	for _, l := range limits {
		var now unix.Rlimit
		if unix.Prlimit(0, l.Resource, nil, &now) != nil {
			continue // a resource that this kernel does not know
		}
		hard := min(l.Hard, now.Max)
		unix.Prlimit(0, l.Resource, &unix.Rlimit{Cur: min(l.Soft, hard), Max: hard}, nil)
	}
}

// becomeUser gives up root for the task's user. No tracer of the user's can have this process do anything before it is
// the command, which the kernel lets be traced again: what the user names may take for ever to open, and it has root's
// resource limits until setLimits.
func becomeUser(spec proc.Spec, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := leaveKeyring(dir); err != nil {
		return err
	}
	if err := linux.SetGroups(spec.UID, spec.Groups); err != nil {
		return err
	}
	if err := syscall.Setresgid(int(spec.GID), int(spec.GID), int(spec.GID)); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	if err := syscall.Setresuid(int(spec.UID), int(spec.UID), int(spec.UID)); err != nil {
		return os.NewSyscallError("setresuid", err)
	}
	return nil
}

// leaveKeyring gives this thread, and what it becomes, a session keyring of its own. That
// of the daemon would be open to the tasks of all users, and hold root's keys if root
// has started it by hand. It is made as root: the few keyrings that the kernel allows a user
// are not for this. Where the call is not allowed it is not to the task either. Which it is, is noted in the task's directory.
func leaveKeyring(dir string) error {
	// By no name: one that has a name is joined by all who give it.
	id, _, e := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if e == unix.ENOSYS || e == unix.EPERM {
		return nil
	}
	if e != 0 {
		return os.NewSyscallError("keyctl(KEYCTL_JOIN_SESSION_KEYRING)", e)
	}
	return os.WriteFile(filepath.Join(dir, keyringFile), []byte(strconv.Itoa(int(id))), 0o600)
}

func openUserFiles(spec proc.Spec) error {
	unix.Umask(int(spec.Umask))
	if spec.Stdin != "" {
		// Not blocking: a named pipe without a writer must not hold up the start.
		fd, err := unix.Open(spec.Stdin, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			return fmt.Errorf("open %s for standard input: %w", spec.Stdin, err)
		}
		if err := unix.SetNonblock(fd, false); err != nil {
			return err
		}
		if err := move(fd, 0); err != nil {
			return err
		}
	}
	if spec.Output != "" {
		if err := openOutput(spec.Output, 1); err != nil {
			return err
		}
		if err := reportOutput(1); err != nil {
			return fmt.Errorf("remember what %s holds: %w", spec.Output, err)
		}
		return unix.Dup3(1, 2, 0)
	}
	for i, path := range []string{spec.Stdout, spec.Stderr} {
		if path == "" {
			continue
		}
		if err := openOutput(path, 1+i); err != nil {
			return err
		}
	}
	return nil
}

func openOutput(path string, to int) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOCTTY, 0o666)
	if err != nil {
		return fmt.Errorf("open %s for output: %w", path, err)
	}
	return move(fd, to)
}

// reportOutput has the supervisor record what the output file holds, and returns
// when that is done.
func reportOutput(fd int) error {
	m, err := proc.MarkOutput(fd)
	if err != nil || m == nil {
		return err
	}
	if err := tell(startReport{Output: m}); err != nil {
		return err
	}
	var answer []byte
	for one := make([]byte, 1); ; answer = append(answer, one[0]) {
		n, err := unix.Read(errorFD, one)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return errors.New("the supervisor is gone")
		case one[0] != '\n':
			continue
		case len(answer) > 0:
			return errors.New(string(answer))
		}
		return nil
	}
}

func move(fd, to int) error {
	if err := unix.Dup3(fd, to, 0); err != nil {
		return err
	}
	return unix.Close(fd)
}

// tell makes a report that is not the last.
func tell(r startReport) error {
	b, err := json.Marshal(r)
	if err == nil {
		_, err = unix.Write(errorFD, append(b, '\n'))
	}
	return err
}
