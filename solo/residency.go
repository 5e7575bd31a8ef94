package solo

import (
	"context"
	"errors"

	"headrace"
	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/wire"
)

const (
	// maxWatched is how many files of waiting tasks are followed at once, and
	// maxWatchedOne how many of one task; of more it is only known what was in
	// memory when the task came.
	maxWatched    = 8192
	maxWatchedOne = 256
	// watchStep is how many tasks are taken up at a time.
	watchStep = 256
)

// waitingInput follows how much of a waiting task's input is in memory.
type waitingInput struct {
	watched []pagecache.Watched
	// tried: its files were looked at.
	tried bool
	// resident is as last measured.
	resident int64
}

// opensItself tells whether the task has declared files that it will open itself.
func (t *task) opensItself() bool {
	return t.rec.Input != nil && t.rec.Input.Split == wire.Split_SPLIT_NONE
}

// inputView is what the policy may know of the task's input.
func (t *task) inputView() headrace.InputView {
	if !t.opensItself() {
		return headrace.InputView{}
	}
	return headrace.InputView{Bytes: t.rec.Input.Bytes, Resident: t.waiting.resident}
}

// unwatch ends the following of a task's input.
func (l *loop) unwatch(t *task) {
	for _, w := range t.waiting.watched {
		w.Close()
	}
	l.watching -= len(t.waiting.watched)
	t.waiting.watched = nil
}

// followInputs brings what is known of the inputs of waiting tasks up to date. One
// round runs at a time.
func (l *loop) followInputs() {
	if l.following || l.cfg.Policy.NoResidencyOrder {
		return
	}
	var fresh []*task
	any := false
	for _, t := range l.active {
		switch {
		case !t.opensItself():
		case t.rec.State != headrace.Pending:
			l.unwatch(t)
		case !t.waiting.tried && len(fresh) < watchStep && l.watching < maxWatched:
			t.waiting.tried = true
			fresh = append(fresh, t)
		default:
			any = any || len(t.waiting.watched) > 0
		}
	}
	if len(fresh) == 0 && !any {
		return
	}
	l.following = true
	l.background(func(ctx context.Context) func() {
		found := make([][]pagecache.Watched, len(fresh))
		for i, t := range fresh {
			found[i] = l.reading.watch(ctx, t.spec.Credentials(), t.rec.Input.Paths)
		}
		if err := l.reading.cache.Refresh(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("find out what is in memory", "err", err)
		}
		return func() { l.followed(fresh, found) }
	})
}

// followed takes in what a round has found.
func (l *loop) followed(fresh []*task, found [][]pagecache.Watched) {
	l.following = false
	for i, t := range fresh {
		t.waiting.watched = found[i]
		l.watching += len(found[i])
		if t.rec.State != headrace.Pending {
			l.unwatch(t)
		}
	}
	for _, t := range l.active {
		if len(t.waiting.watched) == 0 {
			continue
		}
		resident := int64(0)
		for _, w := range t.waiting.watched {
			resident += w.Resident()
		}
		if resident != t.waiting.resident {
			t.waiting.resident = resident
			l.redecide = true
		}
	}
}

var errEnough = errors.New("enough files")

// watch begins to follow the files that paths mean, none if they are too many. A
// file that cannot be opened counts as not in memory.
func (r *reading) watch(ctx context.Context, cred linux.Credentials, paths []string) []pagecache.Watched {
	var list []pagecache.Watched
	err := linux.AsUser(cred, func() error {
		return fileset.Find(ctx, paths, fileset.Visitor{File: func(f fileset.File) error {
			if len(list) == maxWatchedOne {
				return errEnough
			}
			if w := r.watchFile(f.Path); w != nil {
				list = append(list, w)
			}
			return nil
		}})
	})
	if err != nil {
		for _, w := range list {
			w.Close()
		}
		return nil
	}
	return list
}

func (r *reading) watchFile(path string) pagecache.Watched {
	f, err := fileset.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	w, err := r.cache.Watch(f)
	if err != nil {
		return nil
	}
	return w
}

// resident is how much of a file is in memory now, as far as can be known.
func (r *reading) resident(path string, size int64) int64 {
	f, err := fileset.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	n, err := r.cache.Resident(f, pagecache.Range{Len: size})
	if err != nil {
		return 0
	}
	return n
}
