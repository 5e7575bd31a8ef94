package solo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"headrace"
	"headrace/data"
	"headrace/internal/linux"
	"headrace/serve"
	"headrace/solo/board"
	"headrace/solo/journal"
)

// inputs tells package data what tasks read: which inputs are kept in memory and
// followed while their tasks wait, which images are to be before tasks are restored, and
// when nobody reads a stream any more. Only the loop calls it.
type inputs struct {
	files    *data.Files
	follower *data.Follower
	board    *board.Board
	turn     *turn
	log      *slog.Logger
	// images have the keys under which those are kept that will be restored next.
	images    map[*journal.Image]string
	lastImage int
	// disk is how fast inputs are read from disks.
	disk readSpeed
	// spare: tasks that are not on record may read streams (recovery.unknown).
	spare bool
}

func newInputs(files *data.Files, l *loop) *inputs {
	return &inputs{files: files, follower: files.NewFollower(), board: l.board, turn: l.turn, log: l.log}
}

// expect has the input of a task kept if the decision of this turn leaves it
// waiting.
func (s *inputs) expect(t *task) {
	if t.rec.Input != nil && !t.rec.Input.NoWarm {
		s.turn.fresh = append(s.turn.fresh, t)
	}
}

// expectRest does so for a task that has been made to leave, with where it is in its files;
// nil: that is not known.
func (s *inputs) expectRest(t *task, positions map[linux.FileID]int64) {
	if t.positions = positions; positions != nil {
		s.expect(t)
	}
}

// keep has the inputs of those kept that wait after the decision. A task that opens
// its files itself has an input of its own, which is let go with it. The tasks of a
// stream have one together: the first has the paths, and once one has started the
// stream reads by itself.
func (s *inputs) keep(active []*task) {
	for _, t := range s.turn.fresh {
		if !t.waitsToRead() || begun(t.streamOf(), active) {
			continue
		}
		in := data.Input{
			Key: t.inputKey(), Name: "task " + string(t.rec.ID), Alive: s.board.Unended(t.rec.ID),
			Owner: t.spec.Credentials(), Paths: t.rec.Input.Paths, Positions: t.positions, Bytes: t.rec.Input.Bytes, Seq: t.rec.Order,
		}
		if id := t.streamOf(); id != "" {
			in.Name, in.Alive = "job "+string(t.rec.Job), s.board.UnendedOf(id)
		}
		s.turn.later(func() { s.files.Keep(in) }) // the board has to show the task first: see Alive
	}
	s.turn.fresh = nil
}

// waitsToRead tells whether the task waits and it is known what it will read.
func (t *task) waitsToRead() bool {
	if len(t.rec.Input.Paths) == 0 || t.op != nil && t.op.kind != headrace.PagingOut {
		return false
	}
	left := t.rec.State == headrace.Suspended || t.rec.State == headrace.Checkpointed
	return t.rec.State == headrace.Pending || left && !t.rec.Held && t.positions != nil
}

// ready has the images of the tasks kept in memory that will be restored next, and those
// of all others let go: once a task is being restored, it reads its image itself.
func (s *inputs) ready(all map[headrace.TaskID]*task, next []headrace.TaskID) {
	wanted := make(map[*journal.Image]string, len(next))
	for _, id := range next {
		t := all[id]
		if t.op != nil {
			continue // it is being restored by now
		}
		im := t.rec.Checkpoint
		if wanted[im] = s.images[im]; wanted[im] == "" {
			wanted[im] = s.keepImage(t, im)
		}
	}
	for im, key := range s.images {
		if wanted[im] == "" {
			s.turn.later(func() { s.files.LetGo(key) })
		}
	}
	s.images = wanted
}

// keepImage has the image of a task kept, and returns the key to let it go. Images are
// read with the rights of the daemon: nobody else may look into a store.
func (s *inputs) keepImage(t *task, im *journal.Image) (key string) {
	s.lastImage++
	in := data.Input{
		Key: fmt.Sprintf("image:%d", s.lastImage), Name: "the restore of task " + string(t.rec.ID), Alive: s.board.Unended(t.rec.ID),
		Owner: linux.Self(), Paths: []string{filepath.Join(im.Dir, string(t.rec.ID))}, Bytes: im.ToRead, Seq: t.rec.Order,
	}
	s.turn.later(func() { s.files.Keep(in) })
	return in.Key
}

// begun tells whether a task of the stream has started.
func begun(stream string, active []*task) bool {
	if stream == "" {
		return false
	}
	for _, t := range active {
		if t.streamOf() == stream && t.rec.Starts > 0 {
			return true
		}
	}
	return false
}

// release lets go of the input of a task that has ended, if none of active reads it.
func (s *inputs) release(t *task, active []*task) {
	if t.rec.Input == nil {
		return
	}
	if id := t.streamOf(); id != "" {
		for _, other := range active {
			if other != t && other.streamOf() == id {
				return
			}
		}
	}
	key := t.inputKey()
	s.turn.later(func() { s.files.LetGo(key) })
}

// follow brings what is known of the inputs of tasks that wait or run up to date; changed is
// called when something has become of it.
func (s *inputs) follow(tasks func() []*task, changed func()) {
	for _, t := range tasks() {
		switch {
		case !t.opensItself():
		case t.rec.Held || t.rec.State != headrace.Pending && t.rec.State != headrace.Running:
			s.unfollow(t)
		case !t.followed:
			t.followed = s.follower.Follow(string(t.rec.ID), t.spec.Credentials(), t.rec.Input.Paths)
		}
	}
	if !s.follower.Begin() {
		return
	}
	s.turn.background(func(ctx context.Context) func() {
		resident, err := s.follower.Measure(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("find out what is in memory", "err", err)
		}
		return func() {
			for _, t := range tasks() {
				if now, known := resident[string(t.rec.ID)]; known && now != t.resident && t.rec.State == headrace.Pending {
					t.resident = now
					changed()
				}
			}
		}
	})
}

// unfollow ends the following of a task's input.
func (s *inputs) unfollow(t *task) {
	if t.followed {
		s.follower.Drop(string(t.rec.ID))
		t.followed = false
	}
}

// had returns how much of its input a task has read that opens its files itself, and how much of
// that is not in memory; nothing where that is not known. It may be called from anywhere.
func (s *inputs) had(live Task, id headrace.TaskID, asked int64) (read, cold int64) {
	positions, err := live.Positions()
	if err != nil {
		return 0, 0 // it may have ended
	}
	read, cold, _ = s.follower.Had(string(id), positions, asked)
	return read, cold
}

// endLease returns what the task's attempt was dealt to the others, unless it is done. The
// attempt may have said that it is, and have been taken for lost since: only the record of the
// task counts.
func (s *inputs) endLease(t *task) {
	done := t.rec.State == headrace.Done
	s.ofLease(t, func(id string, index, attempt int) error { return s.files.EndAttempt(id, index, attempt, done) })
}

// keepLease keeps it for a task without processes that may come back from its checkpoint.
func (s *inputs) keepLease(t *task) { s.ofLease(t, s.files.AbsentAttempt) }

// ofLease tells the stream of the task's attempt.
func (s *inputs) ofLease(t *task, tell func(id string, index, attempt int) error) {
	id := t.streamOf()
	if id == "" || t.rec.Starts == 0 {
		return
	}
	task, index, attempt := t.rec.ID, t.rec.Input.Index, t.rec.Starts
	s.turn.background(func(context.Context) func() {
		s.told(task, id, tell(id, index, attempt))
		return nil
	})
}

func (s *inputs) told(task headrace.TaskID, id string, err error) {
	if err != nil {
		s.log.Error("a stream does not take in what has become of a task, and may wait for it", "id", task, "stream", id, "err", err)
	}
}

// reconcile makes the streams agree with the records of the tasks.
func (s *inputs) reconcile(all map[headrace.TaskID]*task) error {
	users := map[string][]*task{}
	for _, t := range all {
		id := t.streamOf()
		if id == "" {
			continue
		}
		users[id] = append(users[id], t)
		if t.rec.Starts > 0 && (t.through() || t.rec.State == headrace.Pending && t.rec.Op == nil) {
			s.told(t.rec.ID, id, s.files.EndAttempt(id, t.rec.Input.Index, t.rec.Starts, t.rec.State == headrace.Done))
		} else if t.onlySaved() {
			s.told(t.rec.ID, id, s.files.AbsentAttempt(id, t.rec.Input.Index, t.rec.Starts))
		}
	}
	for _, id := range s.files.Streams() {
		if tasks := users[id]; len(tasks) > 0 {
			s.end(id, tasks)
		} else if s.spare {
			s.log.Warn("an input stays that no task on record reads, for one that is not on record may", "stream", id)
		} else if err := s.files.RemoveStream(id); err != nil { // its tasks were never accepted
			return fmt.Errorf("remove stream %s: %w", id, err)
		}
	}
	return nil
}

// onlySaved tells whether all that there is of the task is a checkpoint after which it has run on.
func (t *task) onlySaved() bool {
	return t.live == nil && t.op == nil && t.rec.Checkpoint != nil && t.rec.RanOn &&
		(t.rec.State == headrace.Checkpointed || t.rec.State == headrace.Lost)
}

// through tells whether the task has ended and cannot go on.
func (t *task) through() bool {
	return t.rec.State.Final() && (t.rec.State != headrace.Lost || t.rec.Checkpoint == nil)
}

// leave ends the stream of a task that has ended, if it was the last one of all.
func (s *inputs) leave(t *task, all map[headrace.TaskID]*task) {
	id := t.streamOf()
	if id == "" {
		return
	}
	var tasks []*task
	for _, other := range all {
		if other.streamOf() == id {
			tasks = append(tasks, other)
		}
	}
	s.end(id, tasks)
}

// end removes a stream whose tasks have all ended: nobody can read it any more.
// What it has dealt stays in their records.
func (s *inputs) end(id string, tasks []*task) {
	for _, t := range tasks {
		if !t.through() {
			return
		}
	}
	if s.files.Dealt(id, 0) == nil {
		return // it has been removed
	}
	for _, t := range tasks {
		in := *t.rec.Input
		in.Dealt = s.files.Dealt(id, in.Index)
		t.rec.Input = &in
		s.turn.touch(t)
	}
	s.turn.background(func(context.Context) func() {
		if err := s.files.RemoveStream(id); err != nil {
			s.log.Error("remove a stream", "stream", id, "err", err)
		}
		return nil
	})
}

// owed tells whether a daemon of a newer version has to be told, from the record of the task, how it has ended: the stream waits for
// both.
func (s *inputs) owed(t *task) bool {
	id := t.streamOf()
	return id != "" && s.files.AwaitsNewer(id)
}

// trouble returns why the task's stream has failed, empty if it has not.
func (s *inputs) trouble(t *task) string {
	if id := t.streamOf(); id != "" {
		return s.files.StreamTrouble(id)
	}
	return ""
}

// heldUp returns a function that tells of a running task why it is dealt nothing; empty: it is.
func (s *inputs) heldUp(all map[headrace.TaskID]*task) func(t *task) string {
	type standstill struct {
		trouble string
		awaited []*task
	}
	standstills := map[string]*standstill{} // by stream
	return func(t *task) string {
		id := t.streamOf()
		if id == "" || t.rec.State != headrace.Running {
			return ""
		}
		still := standstills[id]
		if still == nil {
			still = &standstill{s.files.StreamTrouble(id), consumersOf(id, s.files.Awaited(id), all)}
			standstills[id] = still
		}
		if still.trouble != "" {
			return "its input is not dealt: " + still.trouble
		}
		var names []string
		for _, other := range still.awaited {
			if other != t {
				names = append(names, fmt.Sprintf("%s (%s)", other.rec.ID, other.rec.State))
			}
		}
		if len(names) == 0 {
			return ""
		}
		const most = 3
		if more := len(names) - most; more > 0 {
			names = append(names[:most], fmt.Sprintf("%d more", more))
		}
		return fmt.Sprintf("its input waits for %s: what that was given is not known until it goes on, or is killed", strings.Join(names, ", "))
	}
}

// consumersOf returns the tasks that are some consumers of a stream, in their order.
func consumersOf(stream string, consumers []int, all map[headrace.TaskID]*task) []*task {
	if len(consumers) == 0 {
		return nil
	}
	var list []*task
	for _, t := range all {
		if t.streamOf() == stream && slices.Contains(consumers, t.rec.Input.Index) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *task) int { return cmp.Compare(a.rec.Input.Index, b.rec.Input.Index) })
	return list
}

// jobs tells package data which jobs there are.
type jobs struct{ board *board.Board }

// Live returns the jobs that have a task which has not ended.
func (j jobs) Live() map[data.Job]bool {
	live := map[data.Job]bool{}
	for _, s := range j.board.List(serve.Everything, false) {
		if s.Record.Job != "" {
			live[data.Job{UID: s.Record.UID, Name: s.Record.Job}] = true
		}
	}
	return live
}

// Watch begins to collect the tasks that change.
func (j jobs) Watch() (wake <-chan struct{}, take func() []data.Submission, stop func()) {
	w, stop := j.board.Watch(serve.Everything, "")
	return w.Wake, func() []data.Submission {
		var all []data.Submission
		changed, _ := w.Take()
		for _, s := range changed {
			all = append(all, data.Submission{Job: data.Job{UID: s.Record.UID, Name: s.Record.Job}, AtMs: s.Record.SubmittedMs})
		}
		return all
	}, stop
}
