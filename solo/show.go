package solo

import (
	"headrace"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/board"
	"headrace/wire"
	"headrace/wire/convert"
)

// wireTask returns a task as clients see it; of a long command only the beginning, since many are shown at a time.
func (s *service) wireTask(snap *board.Task, history bool) *wire.Task {
	r := &snap.Record
	t := &wire.Task{
		Id: string(r.ID), Name: r.Name, Job: string(r.Job), Argv: shortened(snap.Argv),
		Priority: uint32(r.Priority), User: r.User, Reason: serve.Shown(snap.Reason()),
		Cpus: r.CPUs, Memory: r.Memory, IoWeight: uint32(r.IOWeight), Held: r.Held,
		SubmittedMs: r.SubmittedMs, StartedMs: r.StartedMs, EndedMs: r.EndedMs, SinceMs: snap.Since(),
		Usage: wireUsage(snap), Progress: -1, Preemptions: uint32(r.Preemptions),
		LostCpu: r.LostCPU.Seconds(), LostWall: r.LostWall.Seconds(),
		NoCheckpoint: serve.Shown(r.NoCheckpoint), NoSuspend: serve.Shown(r.NoSuspend), NoLimits: serve.Shown(snap.NoLimits()),
		Continued: uint32(r.Continued), LastContinuedMs: r.ContinuedMs, Promised: r.Promised.Seconds(),
	}
	convert.SetState(t, r.State, r.Op.Doing())
	if h := r.Hosting; h != nil {
		t.Archived = r.Sent != nil && r.Sent.Done
		t.KeepsRoom = r.KeepsRoom()
		t.Hosting = convert.HostingMessage(*h)
	}
	if r.Exit != nil {
		t.ExitCode, t.Signal = int32(r.Exit.Code), int32(r.Exit.Signal)
	}
	if snap.Stats != nil {
		t.Progress = snap.Stats.Share
	}
	if r.Input != nil {
		t.Input = s.wireInput(r.Input, snap.Resident)
		if t.Progress < 0 {
			t.Progress = share(t.Input)
		}
	}
	if r.State == headrace.Done {
		t.Progress = 1
	}
	if c := r.Checkpoint; c != nil {
		t.Checkpoint = &wire.CheckpointInfo{
			Store: c.Store, TakenMs: c.TakenMs, StoredBytes: c.Stored, TotalBytes: c.ToRead, Chain: uint32(c.Chain),
			DumpSeconds: c.Dump.Seconds(), RestoreSeconds: c.Restore.Seconds(),
		}
	}
	if snap.Output != "" {
		t.StdoutPath, t.StderrPath = snap.Output, snap.Output
	} else {
		t.StdoutPath, t.StderrPath = s.loop.rt.Logs(r.ID)
	}
	if history {
		for _, e := range r.History {
			m := &wire.Event{AtMs: e.AtMs, Reason: e.Reason, ExpectedDelay: e.Delay.Seconds(), Took: e.Took.Seconds(), Bytes: e.Bytes}
			convert.SetEvent(m, e.State)
			t.History = append(t.History, m)
		}
	}
	return t
}

func wireUsage(snap *board.Task) *wire.Usage {
	last := snap.Record.Last
	var now proc.Stats
	if snap.Stats != nil {
		now = *snap.Stats
		last = now.Usage
	}
	u := snap.Record.Base.Plus(last)
	return &wire.Usage{
		UserCpu: u.User.Seconds(), SystemCpu: u.System.Seconds(),
		Resident: now.Resident, Swapped: now.Swapped, Dirty: now.Dirty, MaxResident: u.MaxResident,
		ReadBytes: u.ReadBytes, WrittenBytes: u.WrittenBytes, Processes: uint32(max(0, now.Processes)),
		Running: u.Running.Seconds(), OverheadCpu: u.OverheadCPU.Seconds(),
		SinceSaveCpu: now.SinceSaveCPU.Seconds(), SinceSaveWall: now.SinceSaveWall.Seconds(),
	}
}
