package slowdisk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Options says what to put behind a modelled disk.
type Options struct {
	// Model is the disk; the zero value: HardDisk.
	Model Model
	// Source is the directory that is served.
	Source string
	// Mount is an empty directory to mount it at. Empty: one is made for it in
	// os.TempDir, and removed again.
	Mount string
	// Program is the executable that serves: it must give what follows the argument
	// Command to Main. Empty: this one.
	Program string
}

// A Disk is a mounted modelled disk, with its server in a process of its own. Its
// methods may be called from any goroutine, but Close only when the others have
// returned.
type Disk struct {
	model   Model
	dir     string
	ownDir  bool
	cmd     *exec.Cmd
	life    io.Closer // the server's standard input: it ends when we do
	errors  *errorText
	board   *board
	ended   chan struct{}
	endedAs error

	mu   sync.Mutex
	zero Stats // what Reset has set to nothing
}

const (
	startTime = 30 * time.Second
	stopTime  = 10 * time.Second
)

// Check says whether there can be a modelled disk here: root and /dev/fuse. The
// error is a *linux.MissingError.
func Check() error {
	const feature = "a modelled disk"
	if os.Geteuid() != 0 {
		return &linux.MissingError{Feature: feature, Need: "root", Err: unix.EPERM}
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return &linux.MissingError{Feature: feature, Need: "FUSE in the kernel (modprobe fuse)", Err: err}
	}
	return f.Close()
}

// Start serves a directory behind a modelled disk, after removing mounts whose
// server is gone. It returns when the disk is mounted; ctx concerns the start only.
func Start(ctx context.Context, o Options) (d *Disk, err error) {
	if o.Model == (Model{}) {
		o.Model = HardDisk()
	}
	if err := o.Model.check(); err != nil {
		return nil, err
	}
	if err := Check(); err != nil {
		return nil, err
	}
	if err := Sweep(); err != nil {
		return nil, err
	}
	if o.Program == "" {
		if o.Program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the program of the modelled disk: %w", err)
		}
	}
	d = &Disk{model: o.Model, dir: o.Mount, errors: &errorText{}, ended: make(chan struct{})}
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", fsName+"-"); err != nil {
			return nil, err
		}
		d.ownDir = true
	}
	if d.dir, err = filepath.Abs(d.dir); err == nil {
		err = d.start(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, d.removeDir())
	}
	return d, nil
}

// start runs the server and waits for its greeting.
func (d *Disk) start(ctx context.Context, o Options) error {
	stats, err := memoryFile()
	if err != nil {
		return err
	}
	defer stats.Close()
	args := append([]string{Command, "--until-eof", "--stats=/proc/self/fd/3"}, o.Model.args()...)
	d.cmd = exec.Command(o.Program, append(args, "--", o.Source, d.dir)...)
	d.cmd.ExtraFiles = []*os.File{stats}
	d.cmd.Stderr = d.errors
	// Ctrl-C on the terminal is for us alone.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	life, err := d.cmd.StdinPipe()
	if err != nil {
		return err
	}
	d.life = life
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start the modelled disk: %w", err)
	}
	greeted := make(chan error, 1)
	go func() {
		var g greeting
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &g)
		}
		if err == nil && g.Mount != d.dir {
			err = fmt.Errorf("the server greets with %q", line)
		}
		greeted <- err
		d.endedAs = d.cmd.Wait()
		close(d.ended)
	}()
	timeout := time.NewTimer(startTime)
	defer timeout.Stop()
	select {
	case err = <-greeted:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timeout.C:
		err = fmt.Errorf("no answer within %v", startTime)
	}
	if err == nil {
		d.board, err = openBoard(stats)
	}
	if err != nil {
		err = errors.Join(err, d.stop())
		return fmt.Errorf("start the modelled disk: %w%s", err, d.errors.quote())
	}
	return nil
}

// Dir returns where the disk is mounted.
func (d *Disk) Dir() string { return d.dir }

// Model returns the disk's.
func (d *Disk) Model() Model { return d.model }

// Stats returns what the head has done since the last Reset.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.board.read().Since(d.zero)
}

// Reset makes Stats count from here. Requests that are under way count when they
// are done.
func (d *Disk) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zero = d.board.read()
}

// Bypass leaves the head out, or puts it back: what is read and written meanwhile takes no
// model time, does not move the head, and is not counted. That is for preparing what is
// measured later. Requests that the head has by then are served as they would have been.
func (d *Disk) Bypass(on bool) {
	var word int64
	if on {
		word = 1
	}
	d.board.words.bypass.Store(word)
}

// CPU returns the processor time that the server has used so far, in steps of 10 ms. It
// is the instrument's and not that of what is measured.
func (d *Disk) CPU() (time.Duration, error) {
	select {
	case <-d.ended:
		return 0, fmt.Errorf("processor time of the modelled disk: %w%s", d.why(), d.errors.quote())
	default:
	}
	st, err := linux.ProcFS("").Stat(d.cmd.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("processor time of the modelled disk: %w", err)
	}
	return st.User + st.System, nil
}

// PID returns the server's process.
func (d *Disk) PID() int { return d.cmd.Process.Pid }

// why returns the reason for an end, which must have come.
func (d *Disk) why() error {
	if d.endedAs == nil {
		return errors.New("its server has ended")
	}
	return fmt.Errorf("its server has ended: %w", d.endedAs)
}

// Close unmounts the disk and ends the server. Files that are still open fail from
// then on. A second call does nothing.
func (d *Disk) Close() error {
	if d.board == nil {
		return nil
	}
	err := d.stop()
	err = errors.Join(err, d.board.close(), d.removeDir())
	d.board = nil
	return err
}

// stop ends the server and leaves nothing mounted.
func (d *Disk) stop() error {
	d.life.Close()
	timeout := time.NewTimer(stopTime)
	defer timeout.Stop()
	var err error
	select {
	case <-d.ended:
		if d.endedAs != nil {
			err = d.why()
		}
	case <-timeout.C:
		err = fmt.Errorf("the server did not end within %v and was killed", stopTime)
		d.cmd.Process.Kill()
		<-d.ended
	}
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("end the modelled disk at %s: %w", d.dir, err), detach(d.dir))
}

func (d *Disk) removeDir() error {
	if !d.ownDir {
		return nil
	}
	if err := os.Remove(d.dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// memoryFile returns a file that only its descriptors name.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate(fsName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memory for statistics: %w", err)
	}
	return os.NewFile(uintptr(fd), "statistics of a modelled disk"), nil
}

// errorText keeps the beginning of what the server writes to its standard error.
type errorText struct {
	mu   sync.Mutex
	text []byte
}

func (e *errorText) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, b[:min(len(b), 4000-len(e.text))]...)
	return len(b), nil
}

// quote returns the text for the end of an error message.
func (e *errorText) quote() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.text) == 0 {
		return ""
	}
	return "; it wrote:\n" + string(e.text)
}
