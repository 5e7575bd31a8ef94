package solo

import (
	"time"

	"headrace"
)

// node is the name of the only machine in the policy's view.
const node headrace.NodeID = "local"

// view is what the policy may know.
func (l *loop) view() headrace.View {
	now := l.clk.boot()
	v := headrace.View{
		Nodes: []headrace.NodeView{{
			ID: node, CPUs: l.cfg.Slots, Memory: l.cfg.Memory,
			SwapFree: l.swapRoom(now), SwapOut: l.meta.SwapOut, SwapIn: l.meta.SwapIn,
			Stores: l.storeViews(now),
		}},
		Tasks: make([]headrace.TaskView, 0, len(l.active)),
	}
	for _, t := range l.active {
		if t.hosted() {
			continue
		}
		waitingAlone := t.rec.State == headrace.Pending || t.rec.State == headrace.Checkpointed
		if waitingAlone && t.op == nil && now < t.retryAt {
			// It holds nothing, and nothing may be tried with it now.
			continue
		}
		v.Tasks = append(v.Tasks, l.taskView(t, now))
	}
	return v
}

func (l *loop) taskView(t *task, now time.Duration) headrace.TaskView {
	r := &t.rec
	v := headrace.TaskView{
		ID: r.ID, Job: r.Job, Priority: r.Priority, State: r.State,
		CPUs: r.CPUs, MemoryRequest: r.Memory, Input: t.inputView(),
		Preemptions: r.Preemptions, Held: r.Held || now < t.retryAt,
		Progress: headrace.Progress{Share: -1},
	}
	if r.State != headrace.Pending || r.Op != nil {
		v.Node = node
	}
	if t.room {
		v.Room = node
	}
	if r.Op != nil {
		switch r.Op.Kind {
		case opStart, opResume, opRestore:
			v.Starting = true
		default:
			v.Leaving, v.LeavingBy = true, leavingBy(r.Op.Kind)
			v.PagingOut = r.Op.PageOut
		}
	}
	if t.op != nil && t.op.kind == opAttach {
		// Nobody knows what it does; nothing may be done with it.
		v.Leaving, v.LeavingBy = true, headrace.Suspend
	}
	elapsed := max(0, now-r.Since)
	if r.State == headrace.Running {
		v.Running, v.Waited = elapsed, r.WaitedLast
	} else {
		v.Waiting = r.Waited + elapsed
	}
	l.fillMeasured(t, &v, now)
	v.Progress.Lost = r.LostWall
	if t.op != nil && t.op.kind == opPageOut {
		v.PagingOut = max(0, t.op.bytes-max(0, v.Swapped-t.op.swapped))
	}
	v.PagingOut = min(v.PagingOut, v.Resident)
	v.NoSuspend, v.NoCheckpoint = t.obstacles(now, l.cfg.CRIU == "")
	if c := r.Checkpoint; c != nil {
		v.Checkpoint = &headrace.CheckpointView{Store: c.Store, Bytes: c.ToRead}
	}
	return v
}

func leavingBy(kind string) headrace.Mechanism {
	switch kind {
	case opCheckpoint:
		return headrace.Checkpoint
	case opKill:
		return headrace.Kill
	}
	return headrace.Suspend
}

// fillMeasured adds what is known of the task's processes, carried forward to
// now where it grows with time.
func (l *loop) fillMeasured(t *task, v *headrace.TaskView, now time.Duration) {
	v.Progress.TotalWall = t.rec.Last.Running
	if !t.known {
		return
	}
	s := &t.stats
	v.Resident, v.Swapped = s.Resident, s.Swapped
	v.Dirty = t.dirty()
	v.Progress = headrace.Progress{
		CPU: s.SinceSaveCPU, Wall: s.SinceSaveWall, TotalWall: s.Usage.Running, Share: s.Share,
	}
	if t.rec.State == headrace.Running {
		age := max(0, now-t.statsAt)
		v.Progress.Wall += age
		v.Progress.TotalWall += age
	}
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

// obstacles are the reasons against suspending and checkpointing that hold now.
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
