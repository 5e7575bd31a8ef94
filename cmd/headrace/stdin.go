package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"headrace/cli"
	"headrace/internal/accounts"
	"headrace/internal/linux"
	"headrace/report"
	"headrace/solo"
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

// spool copies standard input into a file that the task can read, which is the daemon's once it
// has accepted the task. While it is open a daemon that starts leaves it alone.
func (a taskVerbs) spool(ctx context.Context, stateDir, owner string) (f *os.File, err error) {
	if term.IsTerminal(int(a.In.Fd())) {
		a.Say("reading standard input up to its end (Ctrl-D)")
	}
	if f, err = solo.MakePiped(stateDir); err != nil {
		return nil, fmt.Errorf("keep standard input for the task: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()), f.Close())
		}
	}()
	copied := make(chan error, 1)
	go func() { // beside: to read a pipe cannot be broken off
		n, err := io.Copy(f, io.LimitReader(a.In, spoolMost+1))
		if err == nil {
			err = f.Sync()
		}
		if err == nil { // its name is to be as durable as the task
			err = linux.SyncDir(filepath.Dir(f.Name()))
		}
		switch {
		case err != nil:
			err = fmt.Errorf("keep standard input for the task: %w", err)
		case n > spoolMost:
			err = cli.UsageErrorf("--stdin -: there is more than %s; put it into a file and name that", report.Bytes(spoolMost))
		}
		copied <- err
	}()
	select {
	case err = <-copied:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return f, err
	}
	return f, give(f, owner)
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
