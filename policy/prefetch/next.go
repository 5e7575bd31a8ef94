package prefetch

import (
	"fmt"

	"headrace/policy/internal/words"
)

// Order says which job's input is read into memory first.
type Order string

const (
	// SmallestFirst takes the job with the smallest input, of equal ones the one
	// submitted first: more jobs gain, and more of them have all of their input in
	// memory when they start (ignem, section III.A.1). It is the default.
	SmallestFirst Order = "smallest-first"
	// FIFO takes the job submitted first. It is there to be compared with.
	FIFO Order = "fifo"
)

// Config tunes warming. Its zero value has the defaults below.
type Config struct {
	// Order is SmallestFirst or FIFO; empty means SmallestFirst.
	Order Order
}

// Room is the memory that warmed blocks may take, over all devices.
type Room struct {
	// Budget is how many bytes may be pinned; what does not fit waits.
	Budget int64
	// Pinned is what is pinned, and what the blocks under way will pin.
	Pinned int64
	// MaxBlocks is how many blocks may be pinned at once, because each takes a
	// mapping of the process; 0: as many as fit. Blocks is how many are.
	MaxBlocks, Blocks int
	// Waiting: a block waits for room on some device.
	Waiting bool
}

// View is what may be known of one device when it is decided what is read
// next on it. It is a value; nothing in it is changed.
type View struct {
	// Busy: a block is being read on the device.
	Busy bool
	Room Room
	// Jobs are those that want something of the device. Their sequence does not
	// matter, but between jobs that are equal in everything.
	Jobs []Job
}

// Job is one job that will read files on the device.
type Job struct {
	// Name is for people: "job nightly".
	Name string
	// Input is the size of all of its input in bytes, on whatever device.
	Input int64
	// Seq is its place in the sequence of submission.
	Seq uint64
	// Limit is how many bytes may be pinned for this job; 0: no limit of its own.
	// Held is how many are, and will be by blocks under way.
	Limit, Held int64
	// Implicit: its references go as it reads, so that a limit of its own that is
	// used up is not so for ever.
	Implicit bool
	// Next are the next blocks that it wants and has no reference to, in the order
	// in which it will read them. A few are enough: one is asked again after each
	// step. Blocks that it does not want any more, because it has read them while
	// they waited here, are left out (ignem, section III.B.2, "missed reads").
	Next []Block
}

// Block is one block that a job wants.
type Block struct {
	// Bytes is what counts against the budget when it is pinned.
	Bytes int64
	State State
}

// State is where a wanted block is.
type State uint8

const (
	// Cold blocks are not in memory, or nobody has looked yet.
	Cold State = iota
	// Resident blocks are in memory without being pinned. They are not pinned
	// either: that would make memory unreclaimable that others are charged for. The
	// job gets a reference, and the block is Cold again when the kernel drops it.
	Resident
	// Pinned blocks are pinned for another job.
	Pinned
	// Moving blocks are being read for another job or released at the moment.
	Moving
)

// Do is what to do about a block.
type Do uint8

const (
	// Nothing: nothing is wanted, or a block is being read.
	Nothing Do = iota
	// Wait: the block waits until others are released.
	Wait
	// Migrate: read the block into memory and pin it.
	Migrate
	// Refer: it is in memory, or empty; the job gets a reference to it.
	Refer
	// Skip: it can never be pinned; leave it to the job's own reading.
	Skip
)

// Step is one step of warming on a device.
type Step struct {
	Do Do
	// Job and Block are indices into View.Jobs and its Next: of the block that
	// something is to be done about, or that waits for room. Both are negative
	// when there is none.
	Job, Block int
	// Reason is for people.
	Reason string
}

// Next returns the next step of warming on one device.
//
// References to what is in memory come first: they cost nothing and keep a block
// from being released (section III.A.4 of ignem, which this follows). Blocks that
// can never fit are passed over, so that they block nobody. Then it is the turn
// of the first block that the first job of the order wants (III.A.1). It is read
// at once if there is room and nothing else is being read: warming never idles
// while it could go on, reads one block at a time, and never interrupts one.
//
// Where there is no room, the block waits until blocks are released; unread ones
// are never released for it (III.A.3, "do not harm"). The queue waits behind it
// (III.B.2): if smaller blocks of later jobs went first, they would take the room
// that it waits for each time that some becomes free. That leaves less than one
// block of the budget unused. Only a job at a limit of its own is passed by, for
// the others take nothing from it; unless it gives references back as it reads,
// what is beyond the limit never fits.
//
// Small jobs that keep coming may keep a large one waiting for ever. It then
// reads its input itself, as if it had not been warmed.
func Next(v View, c Config) Step {
	ready, head, waiting := v.best(c)
	switch {
	case ready.job >= 0:
		return v.readyStep(ready)
	case head.job < 0:
		return Step{Job: -1, Block: -1, Reason: "nothing that is wanted can be read now"}
	}
	step := Step{Job: head.job, Block: head.block}
	if v.Busy {
		step.Reason = "a block is being read on this disk, one at a time; it is not interrupted"
		return step
	}
	step.Do, step.Reason = Wait, v.wait(head)
	if step.Reason == "" {
		step.Do, step.Reason = Migrate, v.why(head, waiting, c)
	}
	return step
}

// Explain says for each job of the view what it waits for, or what is done
// for it next, as Next decides.
func Explain(v View, c Config) []string {
	notes := make([]string, len(v.Jobs))
	step := Next(v, c)
	for i := range v.Jobs {
		w := v.Jobs[i].wants(v.Room)
		switch {
		case i == step.Job:
			notes[i] = step.Reason
		case w.ready >= 0:
			notes[i] = v.readyStep(place{i, w.ready}).Reason
		case w.head >= 0 && step.Job >= 0:
			notes[i] = "waits behind " + v.Jobs[step.Job].Name
		case w.limited:
			notes[i] = fmt.Sprintf("its own limit of %s is used up until it has read some of it", words.Size(v.Jobs[i].Limit))
		default:
			notes[i] = "nothing that it wants can be read now"
		}
	}
	return notes
}

// place is a block of a job in a view; negative when there is none.
type place struct{ job, block int }

// best finds the first job that has a block for which no reading is needed, the
// first that has one to be read, and how many have one to be read.
func (v *View) best(c Config) (ready, head place, waiting int) {
	ready, head = place{-1, -1}, place{-1, -1}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		w := j.wants(v.Room)
		if w.ready >= 0 && (ready.job < 0 || c.Before(j, &v.Jobs[ready.job])) {
			ready = place{i, w.ready}
		}
		if w.head < 0 {
			continue
		}
		waiting++
		if head.job < 0 || c.Before(j, &v.Jobs[head.job]) {
			head = place{i, w.head}
		}
	}
	return ready, head, waiting
}

// Before reports whether a is served before b. Of equal jobs the first stays.
func (c Config) Before(a, b *Job) bool {
	if c.Order != FIFO && a.Input != b.Input {
		return a.Input < b.Input
	}
	return a.Seq < b.Seq
}

// wants is what can be done for one job: ready is its first block for which
// nothing has to be read, head its first that has to be. Negative when there is
// none. limited: there would be more but for the job's own limit.
type wants struct {
	ready, head int
	limited     bool
}

func (j *Job) wants(room Room) wants {
	w := wants{-1, -1, false}
	for i, b := range j.Next {
		switch {
		case b.State == Moving:
		case b.State == Resident, b.Bytes == 0, j.never(b, room) != "":
			w.ready = i
			return w
		case j.full(b):
			w.limited = true
		case w.limited:
			// Its blocks come in its own order: nothing goes before one that waits.
		case b.State == Pinned:
			w.ready = i
			return w
		case w.head < 0:
			w.head = i
		}
	}
	return w
}

// full reports whether a block does not fit into the job's own limit now.
func (j *Job) full(b Block) bool { return j.Limit > 0 && j.Held+b.Bytes > j.Limit }

// never says why a block can never be pinned, or nothing.
func (j *Job) never(b Block, room Room) string {
	switch {
	case b.State == Cold && b.Bytes > room.Budget:
		return fmt.Sprintf("a block of %s is larger than the whole budget of %s", words.Size(b.Bytes), words.Size(room.Budget))
	case j.Limit > 0 && b.Bytes > j.Limit:
		return fmt.Sprintf("a block of %s is larger than its own limit of %s", words.Size(b.Bytes), words.Size(j.Limit))
	case j.full(b) && !j.Implicit:
		return fmt.Sprintf("its own limit of %s is used up", words.Size(j.Limit))
	}
	return ""
}

func (v *View) readyStep(at place) Step {
	j := &v.Jobs[at.job]
	b := j.Next[at.block]
	step := Step{Do: Refer, Job: at.job, Block: at.block}
	switch b.State {
	case Resident:
		step.Reason = "it is in memory already"
		return step
	case Cold:
		if b.Bytes == 0 {
			step.Reason = "it is empty"
			return step
		}
	case Pinned:
		step.Reason = "it is kept in memory for another job already"
	}
	if why := j.never(b, v.Room); why != "" {
		step.Do, step.Reason = Skip, why
	}
	return step
}

// wait says why the block that is next must wait, or nothing.
func (v *View) wait(at place) string {
	b := v.Jobs[at.job].Next[at.block]
	r := v.Room
	switch {
	case r.Pinned+b.Bytes > r.Budget:
		return fmt.Sprintf("waits for room: %s of the budget of %s are kept for jobs that have not read them yet, and %s more do not fit",
			words.Size(r.Pinned), words.Size(r.Budget), words.Size(b.Bytes))
	case r.MaxBlocks > 0 && r.Blocks >= r.MaxBlocks:
		return fmt.Sprintf("waits for room: %d blocks and small files are kept, more than that the kernel does not let one process map", r.Blocks)
	}
	return ""
}

// why says in words why this block is next.
func (v *View) why(at place, waiting int, c Config) string {
	j := &v.Jobs[at.job]
	switch {
	case waiting == 1:
		return fmt.Sprintf("%s is the only one that waits", j.Name)
	case c.Order == FIFO:
		return fmt.Sprintf("%s was submitted first of %d that wait", j.Name, waiting)
	}
	return fmt.Sprintf("%s has the smallest input of %d that wait, %s", j.Name, waiting, words.Size(j.Input))
}
