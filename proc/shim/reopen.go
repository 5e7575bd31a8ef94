package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"headrace/internal/criu/image"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/reopen"
)

// recordFiles adds to the record which files the dumped tree has open,
// while it still stands. It fails when a restore would be refused.
func (j dumpJob) recordFiles(dir string, sv saved) (json.RawMessage, error) {
	if err := reopen.Check(dir, j.User, j.InitPID); err != nil {
		return nil, fmt.Errorf("%w: %w", proc.ErrNotCheckpointable, err)
	}
	var err error
	if sv.Opened, err = reopen.Observe(dir, j.Dir); err != nil {
		return nil, fmt.Errorf("note which files the task has open: %w", err)
	}
	err = reopen.Rehearse(dir, reopen.Options{
		User: j.User, InitPID: j.InitPID, Record: sv.Opened, SameBoot: true, MadeAgain: pathsOf(sv.PerfData),
		Own: []string{j.Dir, sv.TaskDir},
	})
	switch {
	case errors.Is(err, reopen.ErrMoreToRoot): // many look into such files for a moment
		return nil, fmt.Errorf("%w: %w", proc.ErrCheckpointLater, err)
	case err != nil:
		return nil, fmt.Errorf("%w: a restore could not open its files: %w", proc.ErrNotCheckpointable, err)
	}
	return json.Marshal(sv)
}

// showImages makes a directory for CRIU in which an image appears with its files
// opened beforehand. The caller closes both.
func (r *restoration) showImages(from candidate) (*image.Dir, *reopen.Opened, error) {
	if err := from.sv.runsHere(procs); err != nil {
		return nil, nil, err
	}
	boot, err := linux.BootID()
	if err != nil {
		return nil, nil, err
	}
	memory, err := r.t.home.memory()
	if err != nil {
		return nil, nil, fmt.Errorf("lay out the image for CRIU: %w", err)
	}
	d, err := image.NewDir(filepath.Join(memory, imagesDir), from.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("lay out the image for CRIU: %w", err)
	}
	opened, err := r.openFiles(d, from.sv, boot == from.sv.BootID)
	if err != nil {
		return nil, nil, errors.Join(err, d.Remove())
	}
	return d, opened, nil
}

func (r *restoration) openFiles(d *image.Dir, sv saved, sameBoot bool) (*reopen.Opened, error) {
	user, home, moved := r.spec.Credentials(), &r.t.home, r.o.MovedFrom != ""
	if err := reopen.Check(d.Path(), user, sv.InitPID); err != nil {
		return nil, err
	}
	if sv.Opened == nil && r.spec.UID == 0 {
		fmt.Fprintln(os.Stderr, "restore: the checkpoint is of an older Headrace and does not say which files the task had open: they are opened by their paths")
	}
	if sv.Supplement.Sockets == nil && r.spec.UID != 0 {
		return nil, errors.New("the checkpoint does not say whose its sockets were, because an older Headrace has made it: they cannot be made safely for another user than root")
	}
	if moved && sv.Opened != nil {
		here, err := sv.Opened.MadeAt(home.dir, sameBoot)
		if err != nil {
			return nil, err
		}
		moved = !here
	}
	o := reopen.Options{
		User: user, InitPID: sv.InitPID, Record: sv.Opened, SameBoot: sameBoot, Moved: moved,
		MadeAgain: pathsOf(sv.PerfData), Groups: sv.groups(r.spec), Own: []string{home.dir, home.knownAs}, Memory: home.memoryForDeleted,
		Disk: func() (string, error) { return home.diskForDeleted(user.UID) },
	}
	opened, err := reopen.Prepare(d, o)
	if errors.Is(err, reopen.ErrNoRoom) {
		err = fmt.Errorf("%w: %w", proc.ErrNotNow, err)
	} else if _, refused := errors.AsType[*reopen.Refusal](err); refused && proc.KindName(err) == "" {
		err = fmt.Errorf("%w: %w", proc.ErrNotRestorable, err)
	}
	return opened, err
}
