package attach

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"
)

const (
	// DefaultTimeout is how long attach waits for the daemon and the supervisor
	// before it runs the command itself.
	DefaultTimeout = 5 * time.Second
	// ComeBackTimeout is for how long attach asks a daemon for another supervisor, when that
	// of a command that is saved has gone. A daemon that was killed is there again by then.
	ComeBackTimeout = time.Minute
	// GoTimeout is how long the supervisor waits for attach.
	GoTimeout = 10 * time.Second
)

// Message is a line on the lifeline.
type Message struct {
	Ready  bool           `json:"ready,omitempty"`
	Go     bool           `json:"go,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
	// Saved says that from now on a checkpoint may be all that there is of the command, or no longer; with Go, that it was so
	// under an earlier supervisor.
	Saved *bool `json:"saved,omitempty"`
	// Exit is the code that attach is to exit with.
	Exit *int `json:"exit,omitempty"`
	// Error says, with Exit, why the task did not start or was lost.
	Error string `json:"error,omitempty"`
}

// maxMessage bounds a line.
const maxMessage = 4 << 10

// Send writes one message.
func Send(w io.Writer, m Message) error {
	const most = maxMessage / 8 // every byte may take six in JSON
	m.Error = m.Error[:min(len(m.Error), most)]
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Messages reads the messages of one side.
type Messages struct{ lines *bufio.Reader }

// NewMessages reads from a lifeline.
func NewMessages(r io.Reader) *Messages { return &Messages{bufio.NewReaderSize(r, maxMessage)} }

// Next returns the next message; io.EOF when the other side has gone. After an
// error nothing more is to be had.
func (m *Messages) Next() (Message, error) {
	var msg Message
	line, err := m.lines.ReadSlice('\n')
	if err == io.EOF && len(line) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return msg, err
	}
	if err := json.Unmarshal(line, &msg); err != nil {
		return msg, fmt.Errorf("message on the lifeline: %w", err)
	}
	return msg, nil
}

// forwarded are the signals that attach passes on. Those of job control are not
// among them: whether a task is stopped is the daemon's to say.
var forwarded = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM,
	syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGWINCH, syscall.SIGIO, syscall.SIGPWR,
}

// Forwarded reports whether a signal is one that attach passes on.
func Forwarded(sig syscall.Signal) bool { return slices.Contains(forwarded, sig) }
