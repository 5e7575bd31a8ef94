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
		err = Send(line, Message{Go: true})
	}
	if err != nil { // nobody has read it
		signal.Reset()
		return alone(fl.Args(), fmt.Errorf("the task's supervisor went away before the start (%w)", err))
	}
	crash.Here("attach.go")
	go forward(signals, line)
	code, err := awaitExit(NewMessages(line))
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

// forward passes signals on for as long as there is somebody who reads.
func forward(signals <-chan os.Signal, line net.Conn) {
	const patience = time.Second
	for sig := range signals {
		line.SetWriteDeadline(time.Now().Add(patience))
		if Send(line, Message{Signal: sig.(syscall.Signal)}) != nil {
			return
		}
	}
}

// awaitExit waits for the end of the task. An error says what went wrong with it.
func awaitExit(in *Messages) (int, error) {
	for {
		m, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return lostCode, errors.New("its supervisor has gone, and the command with it")
		case err != nil:
			return lostCode, fmt.Errorf("its supervisor cannot be reached any more: %w", err)
		case m.Exit == nil:
			continue
		case m.Error != "":
			return *m.Exit, errors.New(m.Error)
		}
		return *m.Exit, nil
	}
}
