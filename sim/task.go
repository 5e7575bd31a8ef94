package sim

import (
	"time"

	"headrace"
	"headrace/trace"
)

// phase is what the CPUs that a task holds are used for.
type phase uint8

const (
	// idle tasks hold no CPUs.
	idle phase = iota
	// running tasks get on with what they have to do.
	running
	// reading tasks read their input.
	reading
	// The others stand still: being started, stopped or killed; being dumped; being
	// restored or waiting for it; having their memory paged in.
	stopping
	// stalled: it waits for others of its gang.
	stalled
	dumping
	restoring
	pagingIn
)

// task is a task that was submitted and has not ended. Its state, and all that the
// policy may know of it, is in its view; here is the rest.
type task struct {
	spec *trace.Task
	// peak is the memory that it holds in the end, grows the running that it takes to
	// get there: of spec, at hand because they are needed at each decision.
	peak  int64
	grows time.Duration
	// v is its entry in the view, at is where; both change when the view is packed.
	v  *headrace.TaskView
	at int
	// slot is its name in events, gen the generation of those that are not void.
	slot int32
	gen  uint32
	node *node // nil while it is nowhere
	// seq is its number in order of submission, which is when nobody is left that it waits
	// for: queued.
	seq     int32
	queued  time.Duration
	band    uint8
	started bool // at least once

	phase phase
	since time.Duration // when the phase began
	came  time.Duration // when it was last started or brought back
	left  time.Duration // when it would have been submitted, had it waited ever since

	// done is the useful running until since, saved that in the last checkpoint. The
	// time that it reads its input is part of neither.
	done, saved time.Duration
	in          *input // nil: it has nothing to read
	gang        *gang  // nil: it runs by itself
	ready       bool   // to get on, as soon as all of its gang are
	// chain is how many checkpoints build on each other.
	chain int
	// writes is what the dump under way writes.
	writes int64
	kills  kills
}

// spent returns the time of CPUs, in core-seconds, that t has held them for so long.
func (t *task) spent(took time.Duration) float64 {
	return float64(took.Seconds() * float64(t.spec.CPUs))
}

// progress returns the useful running until now.
func (t *task) progress(now time.Duration) time.Duration {
	if t.phase == running {
		return t.done + now - t.since
	}
	return t.done
}

// memory returns how much it holds, in memory or swap, when it has run so long.
func (t *task) memory(progress time.Duration) int64 {
	if progress >= t.grows {
		return t.peak
	}
	return max(min(t.peak, least), int64(float64(t.peak)*(float64(progress)/float64(t.grows))))
}

// least is what a task that grows begins with.
const least = 1 << 20

// dirty returns what a checkpoint has to write when it has run so long.
func (t *task) dirty(progress time.Duration) int64 {
	now := t.memory(progress)
	if t.v.Checkpoint == nil || t.chain >= MaxChain {
		return now
	}
	saved := t.memory(t.saved)
	changed := float64(t.spec.Dirty) * (progress - t.saved).Seconds()
	if changed >= float64(saved) { // all of it; there may be no int64 that large
		return now
	}
	return now - saved + int64(changed)
}

// refresh brings what time changes up to date in the view.
func (t *task) refresh(now time.Duration, knowShare bool) {
	v := t.v
	if v.State == headrace.Running {
		v.Running = now - t.came
		p := t.progress(now)
		v.Progress.Wall, v.Progress.TotalWall = p-t.saved, p
		if t.in != nil {
			read, since := t.readFor(now)
			v.Progress.Wall, v.Progress.TotalWall = v.Progress.Wall+since, p+read
		}
		v.Progress.CPU = v.Progress.Wall
		v.Resident = t.memory(p)
		v.Dirty = t.dirty(p)
		if knowShare && p > 0 {
			v.Progress.Share = min(1, float64(p)/float64(max(t.spec.Run, 1)))
		}
		return
	}
	v.Waiting = now - t.left
}
