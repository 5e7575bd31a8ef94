package solo

import (
	"strings"

	"headrace"
	"headrace/proc"
	"headrace/serve"
	"headrace/wire"
	"headrace/wire/convert"
)

// waitsForSlot is the reason of a task that nothing else can be said about.
const waitsForSlot = "waits for a free slot"

// wireTask returns a task as clients see it; of a long command only the beginning, since many are shown at a time.
func (s *service) wireTask(snap *snapshot, history bool) *wire.Task {
	r := &snap.rec
	t := &wire.Task{
		Id: string(r.ID), Name: r.Name, Job: string(r.Job), Argv: shortened(snap.argv),
		Priority: uint32(r.Priority), User: r.User, Reason: serve.Shown(snap.reason()),
		Cpus: r.CPUs, Memory: r.Memory, IoWeight: uint32(r.IOWeight), Held: r.Held,
		SubmittedMs: r.SubmittedMs, StartedMs: r.StartedMs, EndedMs: r.EndedMs, SinceMs: snap.since(),
		Usage: wireUsage(snap), Progress: -1, Preemptions: uint32(r.Preemptions),
		LostCpu: r.LostCPU.Seconds(), LostWall: r.LostWall.Seconds(),
		NoCheckpoint: serve.Shown(r.NoCheckpoint), NoSuspend: serve.Shown(r.NoSuspend), NoLimits: serve.Shown(snap.noLimits()),
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
	if snap.stats != nil {
		t.Progress = snap.stats.Share
	}
	if r.Input != nil {
		t.Input = s.wireInput(r.Input, snap.resident)
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
	if snap.output != "" {
		t.StdoutPath, t.StderrPath = snap.output, snap.output
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

// noLimits joins what of the task's cgroup could not be had with what of it its processes are
// not in.
func (s *snapshot) noLimits() string {
	switch {
	case s.stats == nil || s.stats.Outside == "":
		return s.rec.NoLimits
	case s.rec.NoLimits == "":
		return s.stats.Outside
	}
	return s.rec.NoLimits + "; " + s.stats.Outside
}

// reason joins why the task came to its state with why it stays there.
func (s *snapshot) reason() string {
	r := s.rec.Reason
	if s.rec.Op != nil { // it does not wait
		if r == waitsForSlot {
			return s.doingReason
		}
		return r
	}
	switch {
	case s.trouble != "":
		return s.trouble
	case s.note == "" || s.rec.State.Final():
		return r
	case r == "" || r == waitsForSlot:
		return s.note
	case strings.Contains(r, s.note):
		return r
	}
	return r + "; now: " + s.note
}

func wireUsage(snap *snapshot) *wire.Usage {
	last := snap.rec.Last
	var now proc.Stats
	if snap.stats != nil {
		now = *snap.stats
		last = now.Usage
	}
	u := snap.rec.Base.Plus(last)
	return &wire.Usage{
		UserCpu: u.User.Seconds(), SystemCpu: u.System.Seconds(),
		Resident: now.Resident, Swapped: now.Swapped, Dirty: now.Dirty, MaxResident: u.MaxResident,
		ReadBytes: u.ReadBytes, WrittenBytes: u.WrittenBytes, Processes: uint32(max(0, now.Processes)),
		Running: u.Running.Seconds(), OverheadCpu: u.OverheadCPU.Seconds(),
		SinceSaveCpu: now.SinceSaveCPU.Seconds(), SinceSaveWall: now.SinceSaveWall.Seconds(),
	}
}
