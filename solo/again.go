package solo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headrace"
	"headrace/disk"
	"headrace/proc"
	"headrace/solo/journal"
	"headrace/solo/store"
)

// finish has the supervisor carry out an operation that an earlier daemon had begun.
func (o *operations) finish(t *task, again *journal.Intent) {
	live, id := t.live, t.rec.ID
	last := t.rec.Checkpoint
	var m *disk.Reader
	p := &store.Promise{}
	opts := proc.CheckpointOptions{Store: again.Dir}
	if st := o.stores.Named(again.Store); st != nil && again.Kind == headrace.Checkpointing {
		need := t.dump().Writes(st)
		p, m = o.stores.Promise(st, need), st.Dumping(o.serves(t, again, nil), id, need)
		opts.Compress, opts.MaxDeleted = st.Compress, o.admission.deletedRoom(t, st, nil)
	}
	o.begin(t, again.Kind, again, nil, func(ctx context.Context) func() error {
		var stats proc.Stats
		err := store.InTurn(ctx, m, live.Exited(), func() (_ int64, err error) {
			stats, err = o.askAgain(ctx, live, again, opts)
			return 0, err
		})
		var im *journal.Image
		if err == nil && stats.State == headrace.Checkpointed && again.Kind == headrace.Checkpointing {
			im, err = o.images.awaitNewer(ctx, id, again, last)
		}
		return func() error {
			wrote := int64(0)
			if im != nil {
				wrote = im.Stored
			}
			p.End(o.clk.boot(), wrote)
			return o.settledAs(t, again, stats, im, err)
		}
	})
}

// startSeen is how long a supervisor without processes may take to begin a start
// that was under way when the daemon ended.
const startSeen = time.Second

// askAgain makes a request again, with opts if it was for a checkpoint, and returns the state after it.
func (o *operations) askAgain(ctx context.Context, live Task, in *journal.Intent, opts proc.CheckpointOptions) (proc.Stats, error) {
	var err error
	switch in.Kind {
	case headrace.Suspending:
		_, err = live.Suspend(ctx, in.Grace)
	case headrace.Resuming:
		err = live.Resume(ctx)
	case headrace.Checkpointing:
		if err = o.stores.There(ctx, in.Dir); err != nil {
			break
		}
		opts.StoreID, opts.Asked = o.stores.ID(in.Dir), in.Began
		_, err = live.Checkpoint(ctx, opts)
	}
	if err != nil && !errors.Is(err, proc.ErrState) {
		o.log.Warn("what was under way when the daemon ended did not succeed", "operation", in.Kind, "err", err)
	}
	began := o.clk.boot()
	for {
		stats, err := live.Stats(ctx)
		starting := in.Kind == headrace.Starting && stats.State == headrace.Checkpointed && o.clk.boot()-began < startSeen
		if err == nil && !starting || errors.Is(err, proc.ErrGone) {
			return stats, err
		}
		select {
		case <-time.After(startSeen / 10):
		case <-ctx.Done():
			return stats, ctx.Err()
		}
	}
}

func (o *operations) settledAs(t *task, in *journal.Intent, stats proc.Stats, im *journal.Image, err error) error {
	if err != nil {
		if in.Kind == headrace.Checkpointing && errors.Is(err, proc.ErrGone) {
			t.unanswered = in
		}
		return err // its end is reported by the connection
	}
	t.stats, t.statsAt, t.known = stats, o.clk.boot(), stats.State != headrace.Checkpointed
	reason := in.Reason
	if stats.State == t.rec.State {
		reason = "the daemon ended while it was " + in.Kind.String()
		o.enter(t, stats.State, journal.Event{Reason: reason})
		return nil
	}
	switch stats.State {
	case headrace.Running:
		if in.Kind == headrace.Restoring {
			t.rec.RanOn = true
		}
		t.rec.Forfeit = false
	case headrace.Suspended:
		o.left(t, in, headrace.Suspend)
	case headrace.Checkpointed:
		if in.Kind == headrace.Starting {
			o.schedulerOf(t).notBegun(t, in)
			return nil
		}
		if im == nil {
			o.vanished(t, proc.Exit{Usage: stats.Usage}, fmt.Sprintf("its processes were gone after the daemon ended while it was %s", in.Kind))
			return nil
		}
		t.rec.Checkpoint, t.rec.RanOn = im, false
		o.left(t, in, headrace.Checkpoint)
		o.enter(t, headrace.Checkpointed, journal.Event{Bytes: im.Stored, Reason: reason})
		o.images.collect(t)
		return nil
	default:
		return nil // ended; the connection will tell
	}
	o.enter(t, stats.State, journal.Event{Reason: reason})
	return nil
}
