package attach

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// exchangeTimeout bounds how long one side takes to send what it has to say.
const exchangeTimeout = 5 * time.Second

// maxFiles are the lifeline and two pipes.
const maxFiles = 3

// Files are the descriptors that come with a request. Whoever has them closes
// them.
type Files struct {
	// Lifeline is one end of a pair of sockets, for the task's supervisor.
	Lifeline *os.File
	// Stdout and Stderr are pipes; nil where the request has none.
	Stdout, Stderr *os.File
}

// Stdio returns what proc.Runtime.StartWith gets.
func (f Files) Stdio() proc.Stdio {
	return proc.Stdio{Out: f.Stdout, Err: f.Stderr, Lifeline: f.Lifeline}
}

// Close closes all that there are.
func (f Files) Close() {
	for _, file := range []*os.File{f.Lifeline, f.Stdout, f.Stderr} {
		if file != nil {
			file.Close()
		}
	}
}

// Receive reads the request of a connection that was just accepted, for at most
// five seconds. On an error nothing is left open but the connection, and the
// error is fit to be the answer. The caller closes the files, also after they were
// given to a task.
func Receive(conn *net.UnixConn) (Request, Files, Peer, error) {
	peer, err := peerOf(conn)
	if err != nil {
		return Request{}, Files{}, peer, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return Request{}, Files{}, peer, err
	}
	defer conn.SetReadDeadline(time.Time{})
	size, list, err := receiveHead(conn)
	if err != nil {
		return Request{}, Files{}, peer, err
	}
	q, files, err := receiveBody(conn, size, list)
	if err != nil {
		closeAll(list)
		return Request{}, Files{}, peer, err
	}
	return q, files, peer, nil
}

// receiveHead reads the size of the request, with which the descriptors come.
// Descriptors that come later, the kernel closes.
func receiveHead(conn *net.UnixConn) (size uint32, files []*os.File, err error) {
	head := make([]byte, 4)
	control := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, nc, flags, _, err := conn.ReadMsgUnix(head, control)
	if err != nil {
		return 0, nil, fmt.Errorf("read the request: %w", err)
	}
	files, err = parseFiles(control[:nc])
	switch {
	case err != nil:
	case flags&unix.MSG_CTRUNC != 0:
		err = fmt.Errorf("more than %d descriptors came with the request", maxFiles)
	case n == 0:
		err = fmt.Errorf("read the request: %w", io.ErrUnexpectedEOF)
	default:
		if _, err = io.ReadFull(conn, head[n:]); err != nil {
			err = fmt.Errorf("read the request: %w", err)
		}
	}
	if err != nil {
		closeAll(files)
		return 0, nil, err
	}
	return binary.BigEndian.Uint32(head), files, nil
}

// parseFiles takes the descriptors out of control messages. On an error all of
// them are closed.
func parseFiles(control []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, os.NewSyscallError("parse control message", err)
	}
	var files []*os.File
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			closeAll(files)
			return nil, os.NewSyscallError("parse descriptors", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func receiveBody(conn *net.UnixConn, size uint32, list []*os.File) (Request, Files, error) {
	b, err := readBody(conn, size)
	if err != nil {
		return Request{}, Files{}, fmt.Errorf("read the request: %w", err)
	}
	q, err := parseRequest(b)
	if err != nil {
		return q, Files{}, err
	}
	files, err := q.name(list)
	return q, files, err
}

// name says which descriptor is what: the lifeline, then the pipes of standard
// output and standard error. They are looked at by name only: to ask a file
// system of the caller's could take for ever.
func (q Request) name(list []*os.File) (Files, error) {
	var f Files
	places := []**os.File{&f.Lifeline}
	kinds := []string{"socket:["}
	if q.Stdout.Pipe {
		places, kinds = append(places, &f.Stdout), append(kinds, "pipe:[")
	}
	if q.Stderr.Pipe {
		places, kinds = append(places, &f.Stderr), append(kinds, "pipe:[")
	}
	if len(list) != len(places) {
		return f, fmt.Errorf("%d descriptors came with the request, not %d", len(list), len(places))
	}
	for i, file := range list {
		target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
		if err != nil {
			return f, err
		}
		if !strings.HasPrefix(target, kinds[i]) {
			return f, fmt.Errorf("descriptor %d of the request is not a %s", i, strings.TrimSuffix(kinds[i], ":["))
		}
		*places[i] = file
	}
	return f, checkLifeline(f.Lifeline)
}

func checkLifeline(f *os.File) error {
	domain, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_TYPE)
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("look at the lifeline: %w", err)
	}
	if domain != unix.AF_UNIX || kind != unix.SOCK_STREAM {
		return errors.New("the lifeline is not a unix stream socket")
	}
	return nil
}

// Reply is the answer to a request.
type Reply struct {
	// Error says why the command is not run as a task; empty: it is.
	Error string `json:"error,omitempty"`
	// Later: that is not known yet, and whoever wants another supervisor asks again.
	Later bool `json:"later,omitempty"`
}

// Answer sends the reply; once for a connection. A caller that has gone is no
// concern of the server's, so the error may be ignored.
func Answer(conn *net.UnixConn, r Reply) error {
	frame, err := encode(r)
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(exchangeTimeout))
	}
	if err == nil {
		_, err = conn.Write(frame)
	}
	return err
}

// encode makes a frame: four bytes of length, the highest first, and JSON.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > maxFrame {
		return nil, fmt.Errorf("it takes %d bytes, more than %d", len(b), maxFrame)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...), nil
}

// readBody reads the JSON of a frame. Memory grows with what has come, not with
// what was announced.
func readBody(r io.Reader, size uint32) ([]byte, error) {
	if size > maxFrame {
		return nil, fmt.Errorf("it would have %d bytes, more than %d", size, maxFrame)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(b) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
