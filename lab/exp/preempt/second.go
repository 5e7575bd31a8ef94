package preempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/wire"
	"headrace/wire/convert"
)

// changedShare is the part of the memory that changes between the checkpoints.
const changedShare = 0.1

// secondCheckpoint is experiment (d): checkpoint-preemption, table 3.
func (h *bench) secondCheckpoint(ctx context.Context, z sizes) error {
	h.Say(0, "(d) preparing the storage")
	places, err := h.Stores(ctx, []int64{z.touchBandwidth}, 3*z.touchBytes+64<<20, !h.o.Quick, "(d)")
	if err != nil {
		return err
	}
	disk, err := h.DiskStore(ctx)
	if err != nil {
		return err
	}
	places = append(places, disk)
	h.res.Setups = append(h.res.Setups, Setup{Experiment: expSecond, LowBytes: z.touchBytes, Stores: rig.StoreFacts(places)})

	var cases []secondCase
	for _, p := range places {
		store, err := h.StoreIn(p.Dir, "store", "second")
		if err != nil {
			return err
		}
		c := rig.DaemonConfig{Policy: "wait", Stores: []rig.StoreDir{store}, Group: p.Group}
		for _, pattern := range []string{"spread", "contiguous"} {
			cases = append(cases, secondCase{h: h.Bench, place: p, config: c, bytes: z.touchBytes, pattern: pattern})
		}
	}
	return trial.Rounds[secondCase, Dump]{Repeats: h.o.Repeats, Seed: h.o.Seed, Entries: cases, Say: h.Say, Name: "(d) ",
		Run: func(c secondCase) (Dump, error) { return c.run(ctx) },
		Keep: func(c secondCase, d Dump, t trial.Turn) {
			d.Store, d.Pattern, d.Changed, d.Size = c.place.Fact.Name, c.pattern, changedShare, c.bytes
			d.Repeat, d.Failure = t.Repeat, t.Failure
			h.res.Dumps = append(h.res.Dumps, d)
		},
	}.Do(ctx, &h.res.Circumstances)
}

// secondCase is one kind of change on one store.
type secondCase struct {
	h       *rig.Bench
	place   rig.Store
	config  rig.DaemonConfig
	bytes   int64
	pattern string
}

func (c secondCase) String() string { return c.pattern + " pages at " + c.place.Fact.Name }

// run fills a task's memory, checkpoints and restores it, has it change some
// pages, and checkpoints it again.
func (c secondCase) run(ctx context.Context) (dump Dump, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	d, err := c.h.Daemon(ctx, c.config)
	if err != nil {
		return Dump{}, err
	}
	dir, err := os.MkdirTemp(c.h.Disk.Dir, "touch")
	if err != nil {
		return Dump{}, err
	}
	defer os.RemoveAll(dir)
	args := []string{"touch", "--dir", dir, "--bytes", strconv.FormatInt(c.bytes, 10),
		"--share", strconv.FormatFloat(changedShare, 'g', -1, 64), "--seed", strconv.FormatUint(c.h.Seed, 10)}
	if c.pattern == "contiguous" {
		args = append(args, "--contiguous")
	}
	id, err := d.Submit(ctx, "touch", args, c.bytes+rig.TaskOverhead, lowPriority)
	if err != nil {
		return Dump{}, err
	}
	defer func() { err = errors.Join(err, d.Dispose(id), c.h.Settle(d)) }()

	if err := c.awaitRound(ctx, d, id, dir, 0); err != nil {
		return Dump{}, err
	}
	if dump.First, dump.FirstBytes, err = c.checkpoint(ctx, d, id); err != nil {
		return Dump{}, fmt.Errorf("first checkpoint: %w", err)
	}
	if err := c.restore(ctx, d, id); err != nil {
		return Dump{}, err
	}
	if err := linux.ReplaceFile(filepath.Join(dir, "go"), []byte("1"), 0o600); err != nil {
		return Dump{}, err
	}
	if err := c.awaitRound(ctx, d, id, dir, 1); err != nil {
		return Dump{}, err
	}
	if dump.Second, dump.SecondBytes, err = c.checkpoint(ctx, d, id); err != nil {
		return Dump{}, fmt.Errorf("second checkpoint: %w", err)
	}
	if err := c.restore(ctx, d, id); err != nil {
		return Dump{}, err
	}
	return dump, c.finish(ctx, d, id, dir)
}

// checkpoint returns how long it took until the checkpoint was durable and the
// processes were gone, and what was written.
func (c secondCase) checkpoint(ctx context.Context, d *rig.Daemon, id string) (took float64, bytes int64, err error) {
	start := time.Now()
	t, err := d.Checkpoint(ctx, &wire.VerbRequest{Id: id})
	if err != nil {
		return 0, 0, err
	}
	took = time.Since(start).Seconds()
	if !convert.In(t, headrace.Checkpointed) || t.Checkpoint == nil {
		return 0, 0, fmt.Errorf("task %s is %s after it was checkpointed", id, convert.StateName(t))
	}
	return took, t.Checkpoint.StoredBytes, nil
}

func (c secondCase) restore(ctx context.Context, d *rig.Daemon, id string) error {
	if _, err := d.Restore(ctx, &wire.VerbRequest{Id: id}); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	_, err := d.Tasks.Until(ctx, id, rig.InState(headrace.Running))
	return err
}

// finish has the task read everything back. Its answer is that of its own check:
// every page against what it must hold.
func (c secondCase) finish(ctx context.Context, d *rig.Daemon, id, dir string) error {
	if err := linux.ReplaceFile(filepath.Join(dir, "go"), []byte("end"), 0o600); err != nil {
		return err
	}
	t, err := d.Tasks.End(ctx, id)
	if err != nil {
		return err
	}
	if !convert.In(t.Task, headrace.Done) {
		return fmt.Errorf("%w: the task ended: %s%s", rig.ErrWrong, rig.Ending(t.Task), d.Complaint(t.Task))
	}
	return nil
}

// awaitRound waits until the task says that it has done a round.
func (c secondCase) awaitRound(ctx context.Context, d *rig.Daemon, id, dir string, round int) error {
	path := filepath.Join(dir, "done")
	for {
		text, err := os.ReadFile(path)
		if err == nil && string(text) == strconv.Itoa(round) {
			return nil
		}
		t, _, err := d.Tasks.Get(id)
		if err != nil {
			return err
		}
		if t.Task != nil && rig.Final(t.Task) {
			return fmt.Errorf("%w: the task ended: %s%s", rig.ErrWrong, rig.Ending(t.Task), d.Complaint(t.Task))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}
