package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"
)

// Ages say when an entry that nothing has happened to is taken care of. Zero values
// mean the defaults.
type Ages struct {
	// Upload: what is being written and has not grown was left behind; it is
	// removed. A data object must be written in this time. Default: one hour. What is
	// complete stays as long as Ready says: whoever put it may not know that nobody can
	// have it, and looks for it before its task goes on.
	Upload time.Duration
	// Claim: a claim that was not renewed is given up, and the entry offered again.
	// Default: five minutes; it must be several times as long as Fetch takes to
	// renew (20 seconds).
	Claim time.Duration
	// Used: an entry whose restore has begun is removed. Default: one day.
	Used time.Duration
	// Ready: an entry that nobody has asked for is removed. Default: seven days.
	Ready time.Duration
}

func (a Ages) of(e Entry) time.Duration {
	switch {
	case e.State == Uploading && !e.whole:
		return orDefault(a.Upload, time.Hour)
	case e.State == Claimed:
		return orDefault(a.Claim, 5*time.Minute)
	case e.State == Used:
		return orDefault(a.Used, 24*time.Hour)
	default:
		return orDefault(a.Ready, 7*24*time.Hour)
	}
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Swept counts what Sweep has done.
type Swept struct {
	Offered int // claims given up
	Removed int // entries removed
}

// Sweep takes care of what died processes have left. Any machine may call it at any
// time, several at once too.
func (a *Archive) Sweep(ctx context.Context, ages Ages) (Swept, error) {
	var s Swept
	now, err := a.place.Now(ctx)
	if err != nil {
		return s, fmt.Errorf("sweep archive %s: %w", a.place, err)
	}
	var errs []error
	for _, st := range []State{Uploading, Claimed, Used, Ready} {
		list, err := a.list(ctx, st)
		errs = append(errs, err)
		for _, e := range list {
			if now.Sub(e.Modified) > ages.of(e) {
				errs = append(errs, a.sweepOne(ctx, e, &s))
			}
		}
	}
	errs = append(errs, a.sweepRemoved(ctx))
	if err := errors.Join(errs...); err != nil {
		return s, fmt.Errorf("sweep archive %s: %w", a.place, err)
	}
	return s, nil
}

func (a *Archive) sweepOne(ctx context.Context, e Entry, s *Swept) error {
	var err error
	if e.State == Claimed {
		if err = a.offer(ctx, e); err == nil {
			s.Offered++
		}
	} else if err = a.discard(ctx, e); err == nil {
		s.Removed++
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return nil // another has taken care of it
	}
	return err
}

// sweepRemoved removes the files of entries whose removal was interrupted.
func (a *Archive) sweepRemoved(ctx context.Context) error {
	list, err := a.place.List(ctx, string(removed))
	if err != nil {
		return err
	}
	for _, o := range list {
		if err := a.place.Remove(ctx, path.Join(string(removed), o.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
