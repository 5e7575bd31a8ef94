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

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"headrace/cli"
	"headrace/internal/accounts"
	"headrace/internal/linux"
	"headrace/report"
	"headrace/solo"
	"headrace/wire"
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

// chooseStdin finds out whether the command gets what is piped to this program, by the names that this has.
func (a taskVerbs) chooseStdin(f *runFlags) error {
	dealt := f.input.split.Rule != wire.Split_SPLIT_NONE
	switch f.stdin {
	case "-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0":
		if dealt {
			return cli.UsageErrorf("--stdin and --split %s: the command has one standard input; leave one of them out", f.input.split.String())
		}
		f.pipes, f.stdin = true, ""
	case "":
		if f.logs && !dealt {
			return a.checkStdin()
		}
	}
	return nil
}

// readStdin makes a file of what is piped to a command, if it is to get that. Nothing is read before the daemon has
// answered: who makes it may take hours for that, and cannot make it again.
func (a taskVerbs) readStdin(ctx context.Context, d *daemon, f *runFlags, req *wire.RunRequest) error {
	if !f.pipes {
		return nil
	}
	owner, err := ownerOf(f.user)
	if err != nil {
		return err
	}
	if _, err := d.node.Info(ctx, &wire.InfoRequest{}); err != nil && !notNow(err) && connect.CodeOf(err) != connect.CodeUnimplemented {
		return err
	}
	if f.piped, err = a.spool(ctx, filepath.Dir(d.socket), owner); err == nil {
		req.Stdin = f.piped.Name()
	}
	return err
}

// keepPiped keeps what was piped to a task that was not accepted, and tells where.
func (a taskVerbs) keepPiped(f *runFlags) {
	if f.piped == nil {
		return
	}
	if info, err := f.piped.Stat(); err != nil || info.Size() > 0 {
		a.tellPiped(f.piped, "what was piped is in %[1]s: hand it in with --stdin %[1]s, or remove it")
	}
	os.Remove(f.piped.Name())
	f.piped.Close()
}

// tellPiped keeps a file for its owner, and tells by a format of its path what it is for.
func (a taskVerbs) tellPiped(f *os.File, format string) {
	path, err := solo.KeepPiped(f)
	if err != nil {
		a.Say("what was piped cannot be kept: %v", err)
		return
	}
	a.Say(format, path)
}

// spool copies standard input into a file that the task can read, which is the daemon's once it
// has accepted the task. While it is open a daemon that starts leaves it alone. owner is the number of another
// user, to whom it is given; -1: nobody.
func (a taskVerbs) spool(ctx context.Context, stateDir string, owner int) (f *os.File, err error) {
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
	if owner >= 0 {
		if err := f.Chown(owner, -1); err != nil {
			return f, fmt.Errorf("give what was piped to the task's user: %w", err)
		}
	}
	return f, nil
}

// ownerOf returns the number of another user as whom root runs a task; -1: there is none.
func ownerOf(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	who, err := accounts.Here.Find(name)
	if errors.Is(err, accounts.ErrUnknown) {
		return -1, cli.UsageErrorf("there is no user %q on this machine", name)
	}
	return int(who.UID), err
}
