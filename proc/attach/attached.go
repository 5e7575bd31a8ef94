package attach

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
)

// lostCode is the exit code of a task whose supervisor has vanished: it was killed.
const lostCode = 128 + int(syscall.SIGKILL)

// Wait implements headrace-shim attached: it starts the task, passes signals on, and ends
// with it. It returns the exit code.
func Wait(args []string) int {
	fl := flag.NewFlagSet("attached", flag.ContinueOnError)
	fl.Int("shim-pid", 0, "the supervisor's pid, for whoever reads this command line")
	id := fl.String("id", "", "the task's name")
	fd := fl.Int("fd", -1, "the lifeline")
	socket := fl.String("socket", "", "the daemon's socket for attached tasks")
	again := fl.Bool("again", false, "the command has run, and is saved")
	if err := fl.Parse(args); err != nil {
		return usageCode
	}
	runtime.GOMAXPROCS(1) // it only waits
	unix.CloseOnExec(*fd)
	os.WriteFile("/proc/self/comm", []byte("headrace-attach"), 0) // for people
	surviveBrokenOutput()
	signals := make(chan os.Signal, 64)
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	line, err := takeLine(*fd)
	if err == nil {
		m := Message{Go: true}
		if *again {
			m.Saved = again // its new supervisor has not been told
		}
		err = Send(line, m)
	}
	if err != nil && *again {
		fmt.Fprintf(os.Stderr, "headrace-shim attach: task %s: the supervisor that was to bring it back went away (%v)\n", *id, err)
		return lostCode
	}
	if err != nil { // nobody has read it
		signal.Reset()
		return alone(fl.Args(), fmt.Errorf("the task's supervisor went away before the start (%w)", err))
	}
	crash.Here("attach.go")
	go forward(signals, line)
	code, saved, err := awaitExit(NewMessages(line), *again)
	if saved && *socket != "" {
		line.Close()
		err = call{socket: *socket, id: *id, argv: fl.Args(), timeout: DefaultTimeout, again: true}.comeBack(err)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "headrace-shim attach: task %s: %v\n", *id, err)
	}
	return code
}

func takeLine(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "lifeline")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d is not one", fd)
	}
	defer f.Close()
	return net.FileConn(f)
}

// forward passes signals on. When nobody reads any more those that ask for the end end this process.
func forward(signals <-chan os.Signal, line net.Conn) {
	const patience = time.Second
	for sig := range signals {
		line.SetWriteDeadline(time.Now().Add(patience))
		s := sig.(syscall.Signal)
		if Send(line, Message{Signal: s}) != nil && (s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP) {
			os.Exit(128 + int(s))
		}
	}
}

// comeBack has this process wait for another supervisor of its command, which was lost in the way
// that is given, and may be saved. It returns only if there is none.
func (c call) comeBack(lost error) error {
	const pause = 500 * time.Millisecond
	for deadline := time.Now().Add(ComeBackTimeout); ; time.Sleep(pause) {
		line, supervisor, err := c.hand()
		if err == nil {
			err = c.waitInPlace(line, supervisor)
			line.Close()
			return errors.Join(lost, err)
		}
		var no *refusal
		if errors.As(err, &no) && !no.Later || time.Now().After(deadline) {
			return fmt.Errorf("%w; it does not go on from a checkpoint: %w", lost, err)
		}
	}
}

// awaitExit waits for the end of the task. An error says what went wrong with it; isSaved, that a
// checkpoint may be all that there is of it, as was so before.
func awaitExit(in *Messages, saved bool) (code int, isSaved bool, err error) {
	for {
		m, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return lostCode, saved, errors.New("its supervisor has gone, and the command with it")
		case err != nil:
			return lostCode, saved, fmt.Errorf("its supervisor cannot be reached any more: %w", err)
		case m.Saved != nil:
			saved = *m.Saved
		case m.Exit == nil:
			continue
		case m.Error != "":
			return *m.Exit, false, errors.New(m.Error)
		default:
			return *m.Exit, false, nil
		}
	}
}
