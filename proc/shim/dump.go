package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"headrace/internal/criu"
	"headrace/internal/criu/image"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/proc/mend"
	"headrace/proc/reopen"
)

// dumpJob is what the supervisor asks of the dump helper.
type dumpJob struct {
	Dir     string `json:"dir"`    // the task's
	Memory  string `json:"memory"` // home.memory
	CRIU    string `json:"criu"`
	InitPID int    `json:"init_pid"`
	// User is whom the task's processes run as.
	User linux.Credentials `json:"user"`
	// Lock holds back packets of the task's TCP connections until the restore.
	Lock bool `json:"lock"`
	// Deleted is how much CRIU will write of files that were deleted.
	Deleted int64 `json:"deleted"`
	// Logs are logPaths of the task.
	Logs     []string               `json:"logs"`
	Attached bool                   `json:"attached"`
	Task     string                 `json:"task"`
	Options  proc.CheckpointOptions `json:"options"`
	// Facts are for the mending of the images.
	Facts mend.Facts `json:"facts"`
	// Meta is what the supervisor knows of the task.
	Meta json.RawMessage `json:"meta"`
}

// dumpAnswer is what it says.
type dumpAnswer struct {
	Result proc.CheckpointResult `json:"result"`
	Kind   string                `json:"kind,omitempty"`
	Error  string                `json:"error,omitempty"`
	// Killed: CRIU was ended by a signal.
	Killed bool `json:"killed,omitempty"`
}

// runDump runs the dump helper: one job on stdin, one answer
// on stdout.
func runDump(in io.Reader, out io.Writer) error {
	var job dumpJob
	if err := json.NewDecoder(in).Decode(&job); err != nil {
		return err
	}
	var answer dumpAnswer
	res, err := job.run()
	if err != nil {
		answer.Kind, answer.Error, answer.Killed = proc.KindName(err), err.Error(), errors.Is(err, errCRIUKilled)
	}
	answer.Result = res
	return json.NewEncoder(out).Encode(answer)
}

func (j dumpJob) run() (proc.CheckpointResult, error) {
	var res proc.CheckpointResult
	store, err := checkpoint.Open(j.Options.Store, checkpoint.Options{Compress: j.Options.Compress, ID: j.Options.StoreID})
	if err != nil {
		return res, notSeen(err)
	}
	res, err = j.write(store, j.Options.Full)
	if errors.Is(err, checkpoint.ErrNeedsFull) {
		res, err = j.write(store, true)
	}
	return res, noSpace(notSeen(err))
}

// write makes one attempt at a checkpoint.
func (j dumpJob) write(store *checkpoint.Store, full bool) (proc.CheckpointResult, error) {
	var res proc.CheckpointResult
	w, err := store.Begin(j.Task, checkpoint.BeginOptions{Full: full, Need: j.Deleted})
	if err != nil {
		return res, err
	}
	begin := linux.Clock()
	if err := j.Facts.Armed(); err != nil {
		return res, errors.Join(fmt.Errorf("%w: %w", proc.ErrCheckpointLater, err), w.Abort())
	}
	err = j.criu(w, func(holds func() error) error {
		sv, err := j.observe(w.Dir())
		if err != nil {
			return err
		}
		if err := mend.Images(w.Dir(), j.Facts); err != nil {
			return err
		}
		meta, err := j.recordFiles(w.Dir(), sv)
		if err != nil {
			return err
		}
		res.Dump = linux.Clock() - begin
		begin = linux.Clock()
		if err := errors.Join(sv.syncFiles(), j.noteLocked(w.Dir()), holds()); err != nil {
			return err
		}
		im, err := w.Commit(meta)
		if err != nil {
			return err
		}
		res.Sync = linux.Clock() - begin
		res.Seq, res.Chain, res.Stored, res.Total, res.ToRead = im.Seq, im.Chain, im.Stored, im.Total, im.BytesToRead()
		return nil
	})
	if err != nil {
		return res, errors.Join(err, w.Abort())
	}
	return res, nil
}

// observe completes the supervisor's record by what is seen of the tree while CRIU holds it, after the dump to a directory: it is of the
// same moment as the images. A tree that somebody has continued before CRIU held it would come back running, and before it has all that it
// had.
func (j dumpJob) observe(dir string) (saved, error) {
	sv, err := parseSaved(j.Meta)
	if err != nil {
		return sv, err
	}
	root, err := procs.Stat(j.InitPID)
	if err != nil {
		return sv, err
	}
	tree, err := descendants(j.InitPID, func(linux.Stat) bool { return false })
	if err != nil {
		return sv, err
	}
	tree = append([]linux.Stat{root}, tree...)
	if err := stoodStill(dir, tree); err != nil {
		return sv, err
	}
	if err := sv.observe(tree, j); err != nil {
		return sv, fmt.Errorf("look at the dumped task: %w", err)
	}
	return sv, nil
}

// stoodStill fails if a process of a tree ran when it was dumped.
func stoodStill(dir string, tree []linux.Stat) error {
	for _, p := range tree {
		if linux.Dead(p.State) {
			continue
		}
		f, err := image.Read(filepath.Join(dir, fmt.Sprintf("core-%d.img", p.PID)))
		if err != nil {
			return err
		}
		if len(f.Entries) != 1 {
			return fmt.Errorf("the image of process %d has %d entries", p.PID, len(f.Entries))
		}
		task, err := f.Entries[0].Message(image.CoreTask)
		if err != nil {
			return err
		}
		if state, _ := task.Uint(image.TaskState); state != image.StateStopped {
			return fmt.Errorf("%w: somebody has continued process %d (%s), which had been stopped for the checkpoint", proc.ErrCheckpointLater, p.PID, p.Comm)
		}
	}
	return nil
}

// notSeen explains to whoever sees a store that this process does not: mounts of the host come to the
// namespace that it was started with only where they are shared.
func notSeen(err error) error {
	if errors.Is(err, checkpoint.ErrNotThere) {
		return fmt.Errorf("%w: seen from this task, %w; if it was mounted after the task was started, name a store that was there before, or let the task run on",
			proc.ErrNotNow, err)
	}
	return err
}

// noSpace marks a full device as such.
func noSpace(err error) error {
	if errors.Is(err, checkpoint.ErrNoSpace) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", proc.ErrNoSpace, err)
	}
	return err
}

// criu dumps the tree through the store's page server, has commit do the rest while CRIU
// still holds the tree, and leaves it stopped. An error means that CRIU has put the tree in
// order again, unless it was killed; without one the image is committed.
func (j dumpJob) criu(w *checkpoint.Writer, commit func(holds func() error) error) error {
	lock := "skip"
	if j.Lock {
		lock = "nftables"
	}
	args := append([]string{
		"dump", "-t", strconv.Itoa(j.InitPID), "-D", w.Dir(), "--leave-stopped",
		"--page-server", "--ps-socket", "3", "--network-lock", lock,
	}, criuCommon...)
	if j.User.UID == 0 {
		args = append(args, linkRemap)
	}
	cmd := exec.Command(j.CRIU, args...)
	cmd.ExtraFiles = []*os.File{w.PageSocket()}
	log, err := criuLog()
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	asked, committed, err := decide(cmd, j.Memory, commit)
	keepLog(log, j.Dir, dumpLog)
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		err = fmt.Errorf("%w: %w", errCRIUKilled, err)
	}
	switch {
	case asked && committed != nil && errors.Is(err, errCRIUKilled):
		return errors.Join(committed, err)
	case asked:
		return committed // whatever has become of CRIU since
	case err == nil:
		return errors.New("CRIU has ended without asking whether the dump is to count")
	}
	failure := criuFailure("CRIU could not dump the task", err, log, (*reopen.Opened)(nil).Explain)
	if serr := w.ServerErr(); serr != nil {
		return errors.Join(serr, failure) // CRIU saw only that the connection broke
	}
	if err := storeFull(w.Dir()); err != nil {
		return errors.Join(err, failure)
	}
	if exit != nil && exit.Exited() {
		if said := failure.Error(); criu.Passing(said) || criu.Lacking(said) {
			return fmt.Errorf("%w: %w", proc.ErrCheckpointLater, failure)
		}
		return fmt.Errorf("%w: %w", proc.ErrNotCheckpointable, failure)
	}
	return failure
}

// storeFull returns ENOSPC or EDQUOT if there is no room for what CRIU would write next to a directory: that is no fault of the
// task. The file system is asked: in what CRIU says stand names of files, which are the task's to choose.
func storeFull(dir string) error {
	f, err := os.CreateTemp(dir, "room-")
	if err == nil {
		_, err = f.Write(make([]byte, 1<<20))
		err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())) // some tell only when it is to be durable
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return nil // it may be gone: then others say so
}

// memoryFile returns a file in memory, that a program reads from its start, or writes.
// With a pipe, a child that the program has left behind would hold up who reads it.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteAt(content, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// wordsOf returns the start of what was written to a file.
func wordsOf(f *os.File) string {
	b := make([]byte, 64<<10)
	n, _ := f.ReadAt(b, 0) // what cannot be read is no explanation
	return string(b[:n])
}
