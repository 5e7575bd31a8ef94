package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"headrace/cli"
	"headrace/internal/accounts"
	"headrace/report"
)

const (
	// spoolMost is how much of standard input --stdin - takes, in bytes.
	spoolMost = 1 << 30
	// listenFor is how long run -f waits to learn whether anything is piped to it.
	listenFor = 200 * time.Millisecond
)

// piped is what somebody may have given a program on its standard input.
type piped int

const (
	nothing piped = iota
	something
	unclear // it is open, and nothing has come yet
)

// whatIsPiped tells what is on a standard input without reading any of it.
func whatIsPiped(in *os.File, patience time.Duration) piped {
	info, err := in.Stat()
	if err != nil || term.IsTerminal(int(in.Fd())) {
		return nothing
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		at, err := in.Seek(0, io.SeekCurrent)
		if err != nil || at < info.Size() {
			return something
		}
		return nothing
	case mode&(fs.ModeNamedPipe|fs.ModeSocket) == 0: // /dev/null above all
		return nothing
	}
	fd := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
	for deadline := time.Now().Add(patience); ; {
		n, err := unix.Poll(fd, int(max(0, time.Until(deadline)).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			return unclear
		}
		if waiting, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCINQ); err != nil || waiting > 0 {
			return something
		}
		return nothing // its end
	}
}

// checkStdin refuses to run a command whose caller pipes it something that it
// would not get.
func (a taskVerbs) checkStdin() error {
	switch whatIsPiped(a.In, listenFor) {
	case something:
		return cli.UsageErrorf("standard input is not passed to the command: hand it over with --stdin - (up to %s), or name a file with --stdin FILE; for none, < /dev/null", report.Bytes(spoolMost))
	case unclear:
		a.Say("standard input is not passed to the command; --stdin - does that")
	}
	return nil
}

// spool copies standard input into a file that the task can read, and returns its
// path. Whoever calls it removes the file when the task has ended.
func (a taskVerbs) spool(owner string) (path string, err error) {
	if term.IsTerminal(int(a.In.Fd())) {
		a.Say("reading standard input up to its end (Ctrl-D)")
	}
	// Not /tmp: the file must outlive a reboot as the task does.
	f, err := os.CreateTemp("/var/tmp", "headrace-stdin-*")
	if err != nil {
		return "", fmt.Errorf("keep standard input for the task: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	n, err := io.Copy(f, io.LimitReader(a.In, spoolMost+1))
	if err != nil {
		return "", fmt.Errorf("keep standard input for the task: %w", err)
	}
	if n > spoolMost {
		return "", cli.UsageErrorf("--stdin -: there is more than %s; put it into a file and name that", report.Bytes(spoolMost))
	}
	if err := f.Sync(); err != nil {
		return "", fmt.Errorf("keep standard input for the task: %w", err)
	}
	return f.Name(), give(f, owner)
}

// give makes another user the owner of a file, for root who runs a task as them.
func give(f *os.File, name string) error {
	if name == "" {
		return nil
	}
	who, err := accounts.Here.Find(name)
	if errors.Is(err, accounts.ErrUnknown) {
		return cli.UsageErrorf("there is no user %q on this machine", name)
	}
	if err == nil {
		err = f.Chown(int(who.UID), -1)
	}
	if err != nil {
		return fmt.Errorf("give %s to %s: %w", f.Name(), name, err)
	}
	return nil
}
