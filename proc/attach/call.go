package attach

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// pidVariable is where YARN's launch script puts the pid of the process that
// becomes the command.
const pidVariable = "JVM_PID"

// request describes the command as this process would become it, and returns the
// descriptors of the pipes that go with that.
func (c call) request() (Request, []int, error) {
	q := Request{ID: c.id, Again: c.again, Argv: c.argv, Env: os.Environ(), Limits: Limits()}
	q.Umask = uint32(unix.Umask(0))
	unix.Umask(int(q.Umask))
	if _, ok := os.LookupEnv(pidVariable); ok {
		q.PIDVar = pidVariable
	}
	var err error
	if q.Cwd, err = os.Getwd(); err != nil {
		return q, nil, err
	}
	var pipes []int
	for fd, out := range []*Output{1: &q.Stdout, 2: &q.Stderr} {
		if out == nil {
			continue
		}
		if *out = outputOf(fd); out.Pipe {
			pipes = append(pipes, fd)
		}
	}
	return q, pipes, q.check()
}

// outputOf finds out where a descriptor leads.
func outputOf(fd int) Output {
	target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return Output{}
	}
	if strings.HasPrefix(target, "pipe:[") {
		return Output{Pipe: true}
	}
	var open, named unix.Stat_t
	if unix.Fstat(fd, &open) != nil || unix.Stat(target, &named) != nil || open.Dev != named.Dev || open.Ino != named.Ino {
		return Output{} // a socket, or a file that has no name any more
	}
	if open.Mode&unix.S_IFMT != unix.S_IFREG && target != os.DevNull || unix.Faccessat(unix.AT_FDCWD, target, unix.W_OK, unix.AT_EACCESS) != nil {
		return Output{}
	}
	return Output{Path: target}
}

// Limits returns those that a command would have that this process runs.
func Limits() []proc.Limit {
	var out []proc.Limit
	for resource := range resourceNames {
		var l unix.Rlimit
		if unix.Prlimit(0, resource, nil, &l) != nil {
			continue
		}
		if resource == unix.RLIMIT_NOFILE {
			l.Cur = inheritedFiles(l.Cur)
		}
		out = append(out, proc.Limit{Resource: resource, Soft: l.Cur, Hard: l.Max})
	}
	return out
}

// inheritedFiles returns the soft limit of open files that this process was started
// with. Go raises it for itself, and only for a program that it starts puts it back.
func inheritedFiles(now uint64) uint64 {
	out, err := exec.Command("/bin/sh", "-c", "ulimit -S -n").Output()
	if err != nil {
		return now
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64)
	if err != nil { // unlimited
		return now
	}
	return n
}

func dial(socket string, deadline time.Time) (*net.UnixConn, error) {
	path, release, err := linux.SocketPath(socket)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("the daemon does not answer: %w", err)
	}
	return conn.(*net.UnixConn), nil
}

// send sends the request, its descriptors with the first bytes.
func send(conn *net.UnixConn, q Request, fds []int, deadline time.Time) error {
	frame, err := encode(q)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	const head = 4
	if _, _, err = conn.WriteMsgUnix(frame[:head], unix.UnixRights(fds...), nil); err == nil {
		_, err = conn.Write(frame[head:])
	}
	if err != nil {
		return fmt.Errorf("send the request to the daemon: %w", err)
	}
	return nil
}

// awaitReady waits until the supervisor is ready, and returns its pid, or until the
// daemon refuses or has gone.
func awaitReady(conn *net.UnixConn, line *os.File, deadline time.Time) (int, error) {
	l, err := net.FileConn(line)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	if err := l.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	type result struct {
		pid int
		err error
	}
	ready, refused := make(chan result, 1), make(chan error, 1)
	go func() {
		pid, err := readReady(l.(*net.UnixConn))
		ready <- result{pid, err}
	}()
	go func() {
		if err := readReply(conn); err != nil {
			refused <- err
		}
	}()
	select {
	case err := <-refused:
		return 0, err
	case r := <-ready:
		if r.err == nil {
			return r.pid, nil
		}
		select { // the daemon may know why
		case err := <-refused:
			return 0, err
		case <-time.After(answerLag):
			return 0, r.err
		}
	}
}

// answerLag is how much later than the end of the lifeline the daemon's answer may
// come.
const answerLag = 100 * time.Millisecond

// readReady reads the supervisor's first message, and who has sent it.
func readReady(line *net.UnixConn) (int, error) {
	b, control := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, nc, _, _, err := line.ReadMsgUnix(b, control)
	switch {
	case errors.Is(err, io.EOF):
		return 0, errors.New("the task's supervisor went away before the start")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errors.New("the task's supervisor did not come up in time")
	case err != nil:
		return 0, fmt.Errorf("read the lifeline: %w", err)
	}
	var m Message
	if err := json.Unmarshal(b[:n], &m); err != nil || !m.Ready {
		return 0, fmt.Errorf("the task's supervisor said %q before the start", b[:n])
	}
	messages, err := unix.ParseSocketControlMessage(control[:nc])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("the kernel does not tell the supervisor's pid: %v", err)
	}
	cred, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, fmt.Errorf("the kernel does not tell the supervisor's pid: %w", err)
	}
	return int(cred.Pid), nil
}

// readReply returns nil when the daemon has taken the request.
func readReply(conn *net.UnixConn) error {
	head := make([]byte, 4)
	_, err := io.ReadFull(conn, head)
	var b []byte
	if err == nil {
		b, err = readBody(conn, binary.BigEndian.Uint32(head))
	}
	var r Reply
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the daemon closed the connection")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("the daemon did not answer in time")
	case err != nil:
		return fmt.Errorf("read the daemon's answer: %w", err)
	case r.Error != "":
		return &refusal{r}
	}
	return nil
}

// refusal is an answer of the daemon that says no.
type refusal struct{ Reply }

func (r *refusal) Error() string { return "the daemon refused: " + r.Reply.Error }
