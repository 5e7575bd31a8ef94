package solo

import (
	"cmp"
	"math"
	"time"

	"headrace"
	"headrace/policy"
)

// node is the name of the only machine in the policy's view.
const node headrace.NodeID = "this machine"

// view returns what the policy may know.
func (s *own) view() headrace.View {
	now := s.clk.boot()
	var stores []headrace.StoreView
	if s.cfg.CRIU != "" {
		stores = s.stores.Views()
	}
	v := headrace.View{
		Nodes: []headrace.NodeView{{
			ID: node, CPUs: s.cfg.Slots, Memory: s.cfg.Memory,
			SwapFree: s.memory.swapRoom(now), SwapOut: s.memory.SwapOut, SwapIn: s.memory.SwapIn,
			Stores: stores, Disk: float64(s.inputs.disk),
		}},
		Tasks: make([]headrace.TaskView, 0, len(s.tasks.active)),
	}
	tasks := make([]*task, 0, len(s.tasks.active))
	for _, t := range s.tasks.active {
		if t.hosted() {
			continue
		}
		waitingAlone := t.rec.State == headrace.Pending || t.rec.State == headrace.Checkpointed
		if waitingAlone && t.op == nil && (now < t.retryAt || s.images.missing(t) != nil) {
			// It holds nothing, and nothing may be tried with it now.
			continue
		}
		v.Tasks, tasks = append(v.Tasks, s.taskView(t, now)), append(tasks, t)
	}
	s.admission.restrain(v.Tasks, tasks)
	return v
}

func (s *own) taskView(t *task, now time.Duration) headrace.TaskView {
	r := &t.rec
	v := headrace.TaskView{
		ID: r.ID, Job: r.Job, Owner: headrace.Owner{User: r.UID}, Priority: r.Priority, State: r.State,
		CPUs: r.CPUs, MemoryRequest: r.Memory, Input: t.inputView(), Waited: r.Waited,
		Preemptions: r.Preemptions, Held: r.Held || now < t.retryAt,
	}
	if r.State != headrace.Pending || r.Op != nil {
		v.Node = node
	}
	if t.room {
		v.Room = node
	}
	if r.State == headrace.Running {
		v.Running = max(0, now-r.Since)
		t.runs(v.Running)
	} else {
		v.Waiting, v.NoVictims = t.waited(now), now < t.claimsAt
	}
	v.NoSuspend, v.NoCheckpoint = t.obstacles(now, s.cfg.CRIU == "")
	if v.NoCheckpoint == "" && t.live != nil { // of very many most have nothing to checkpoint
		if err := s.admission.refusesCheckpoint(t); err != nil {
			v.NoCheckpoint = err.Error()
		}
	}
	if c := r.Checkpoint; c != nil {
		v.Checkpoint = &headrace.CheckpointView{Store: c.Store, Bytes: c.ToRead}
	}
	age := t.fillMeasured(&v, now)
	doing := headrace.Idle
	if t.op != nil { // else what is on record is over, and was not answered
		doing = r.Op.Doing()
	}
	v = policy.Current(v, age, doing, t.pageOuts(v.Swapped)...)
	s.keepPromise(t, v.Progress.Promised)
	if t.op != nil && t.op.kind == headrace.Attaching {
		// Nobody knows what it does; nothing may be done with it.
		v.Leaving, v.LeavingBy = true, headrace.Suspend
	}
	if t.live != nil && t.op == nil && now < t.retryAt { // orders are not carried out: others have to leave in its place
		if t.ending && v.State == headrace.Running { // which is not worth it yet
			v.Leaving, v.LeavingBy = true, headrace.Suspend
			return v
		}
		const why = "it is being ended, or could not be"
		v.NoSuspend, v.NoCheckpoint, v.NoKill = cmp.Or(v.NoSuspend, why), cmp.Or(v.NoCheckpoint, why), math.MaxUint8
	}
	return v
}

// keepPromise remembers which end a task has told, also over restarts of the daemon: that it is
// late is not known otherwise.
func (s *own) keepPromise(t *task, end time.Duration) {
	t.promised = end
	if policy.PromiseIsNearer(end, t.rec.Promised) {
		t.rec.Promised = end
		s.touch(t)
	}
}

// fillMeasured adds what is known of the task's processes, and returns how long ago
// that was measured.
func (t *task) fillMeasured(v *headrace.TaskView, now time.Duration) (age time.Duration) {
	promised := cmp.Or(t.promised, t.rec.Promised)
	v.Progress = headrace.Progress{TotalWall: t.rec.Last.Running, Lost: t.rec.LostWall, Share: -1, Promised: promised}
	switch im := t.rec.Checkpoint; {
	case !t.known && t.rec.State == headrace.Checkpointed && im != nil:
		v.Resident = im.Total // that it had, and needs again: less than what is read, or more where that is compressed
		return 0
	case !t.known:
		t.returning.show(v)
		return 0
	}
	s := &t.stats
	v.Resident, v.Swapped, v.Dirty = s.Resident, s.Swapped, t.dirty()
	t.returning.show(v)
	v.Progress = headrace.Progress{
		CPU: s.SinceSaveCPU, Wall: s.SinceSaveWall, TotalWall: s.Usage.Running, Lost: t.rec.LostWall, Share: s.Share,
		Promised: promised,
	}
	return now - t.statsAt
}

// pageOuts returns what is to be written to swap: by what runs now, or beside the
// swapped bytes that are there once the task has been stopped.
func (t *task) pageOuts(swapped int64) []policy.PageOut {
	switch {
	case t.op != nil && t.op.kind == headrace.PagingOut:
		return []policy.PageOut{{Bytes: t.op.bytes, Swapped: t.op.swapped}}
	case t.rec.Op.Doing().LeavesBy() != headrace.Wait:
		return []policy.PageOut{{Bytes: t.rec.Op.PageOut, Swapped: swapped}}
	}
	return nil
}

// dirty estimates what a dump has to write: what the memory holds, scaled by
// what earlier incremental dumps of the task had to write of it.
func (t *task) dirty() int64 {
	d := t.stats.Dirty
	if t.rec.Checkpoint != nil && t.rec.Ratio > 0 && t.rec.Ratio < 1 {
		d = int64(float64(d) * t.rec.Ratio)
	}
	return min(d, t.stats.Resident+t.stats.Swapped)
}

const whyNoCRIU = "CRIU is not there; see: headrace doctor"

// obstacles returns the reasons against suspending and checkpointing that hold now.
func (t *task) obstacles(now time.Duration, noCRIU bool) (suspend, checkpoint string) {
	suspend, checkpoint = t.rec.NoSuspend, t.rec.NoCheckpoint
	if t.noSuspendUntil != 0 && now >= t.noSuspendUntil {
		suspend = ""
	}
	if t.noCheckpointUntil != 0 && now >= t.noCheckpointUntil {
		checkpoint = ""
	}
	if noCRIU && checkpoint == "" {
		checkpoint = whyNoCRIU
	}
	return suspend, checkpoint
}
