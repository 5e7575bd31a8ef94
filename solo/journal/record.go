package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"headrace"
	"headrace/data"
	"headrace/proc"
	"headrace/serve"
	"headrace/wire"
)

// version is what the records are written as; a daemon that knows only lower ones refuses them. An older daemon passes over a field that it
// does not know, and does not write it back: so whoever adds one whose loss changes what is done raises the version, unless
// that was done since the last release already. testdata/names holds both.
//
// 2: shared_output, renewed, began_in, kill, keeps, in_vain and others, without which output is cut that is another task's, a store is given up
// twice, or a task is taken for one that begins here.
const version = 2

// Record is what is durable of a task, apart from its Spec. Values behind its
// pointers and in its slices are never changed once they are here, only
// replaced or appended to, so that copies can be read without a lock. Its parts are
// written in this order, without names of their own.
type Record struct {
	Version int `json:"version"`
	Submission

	State     headrace.TaskState `json:"-"`
	StateName string             `json:"state"`
	// Op is the operation under way, nil without one.
	Op *Intent `json:"op,omitempty"`
	// Kill is one that did not end it in time, nil without one: its end may come at any moment.
	Kill   *Intent `json:"kill,omitempty"`
	Reason string  `json:"reason,omitempty"`
	Held   bool    `json:"held,omitempty"`
	// Keeps: a user has suspended it, and its scheduler, which is another one, was not told
	// that others may have its room. It is of use while it is suspended.
	Keeps bool `json:"keeps,omitempty"`

	Waits
	Dates

	Exit *proc.Exit `json:"exit,omitempty"`
	// SeenExit is when the last end happened that was taken in: its record may
	// still be there when the task runs again.
	SeenExit time.Time `json:"seen_exit"`
	// Starts counts attempts to start from the beginning, Losses how often the
	// supervisor vanished.
	Starts      int `json:"starts,omitempty"`
	Losses      int `json:"losses,omitempty"`
	Preemptions int `json:"preemptions,omitempty"`

	Work
	Saved

	// Input is what it reads, nil if nobody said; replaced, never changed.
	Input *Input `json:"input,omitempty"`

	// Sent is set while the checkpoint of a hosted task is, or may be, where others can
	// take it.
	Sent *Sent `json:"sent,omitempty"`
	// Hosting is set for a task whose scheduler is another one.
	Hosting *headrace.Hosting `json:"hosting,omitempty"`

	NoCheckpoint string `json:"no_checkpoint,omitempty"`
	NoSuspend    string `json:"no_suspend,omitempty"`
	Continuations
	// NoLimits is what of its cgroup could not be had.
	NoLimits string `json:"no_limits,omitempty"`

	History []Event `json:"history"`
}

// Submission is what was asked for, and by whom.
type Submission struct {
	ID headrace.TaskID `json:"id"`
	// Order is the number of the submission.
	Order    uint64            `json:"order"`
	Name     string            `json:"name,omitempty"`
	Job      headrace.JobID    `json:"job,omitempty"`
	UID      uint32            `json:"uid"`
	User     string            `json:"user"`
	Priority headrace.Priority `json:"priority"`
	CPUs     float64           `json:"cpus"`
	Memory   int64             `json:"memory,omitempty"`
	PIDs     int64             `json:"pids,omitempty"`
	IOWeight int               `json:"io_weight,omitempty"`
	// SpecBytes is the size of its command, its environment and the paths of its input.
	SpecBytes int64 `json:"spec_bytes,omitempty"`
	// RestartOnLoss: see wire.Restart.
	RestartOnLoss bool `json:"restart_on_loss,omitempty"`
}

// Waits is since when a task waits or runs.
type Waits struct {
	// Boot names the boot of the machine that Since belongs to. Since is when the
	// task began to wait or to run, Waited how long it had waited before that. SinceMs is Since by
	// the wall clock, for the time that passes until there is another boot.
	Boot    string        `json:"boot"`
	Since   time.Duration `json:"since"`
	SinceMs int64         `json:"since_ms,omitempty"`
	Waited  time.Duration `json:"waited,omitempty"`
	// Limited: a limit of its owner holds it back, so that it does not wait yet.
	Limited bool `json:"limited,omitempty"`
	// InVain is how often in a row others have left for it in vain, ClaimsMs until when nobody leaves
	// for it again, by the wall clock.
	InVain   int   `json:"in_vain,omitempty"`
	ClaimsMs int64 `json:"claims_ms,omitempty"`
}

// Dates are for people, by the wall clock.
type Dates struct {
	SubmittedMs int64 `json:"submitted_ms"`
	StartedMs   int64 `json:"started_ms,omitempty"`
	EndedMs     int64 `json:"ended_ms,omitempty"`
}

// Work is what a task has used, and what of that was in vain.
type Work struct {
	LostCPU  time.Duration `json:"lost_cpu,omitempty"`
	LostWall time.Duration `json:"lost_wall,omitempty"`
	// Base is what attempts used that were thrown away, Last what the present one
	// had used when it was last looked at.
	Base proc.Usage `json:"base"`
	Last proc.Usage `json:"last"`
	// Promised is about the earliest end that the present attempt has told (headrace.Progress.Promised).
	Promised time.Duration `json:"promised,omitempty"`
}

// Saved is what there is of a task on storage.
type Saved struct {
	Checkpoint *Image `json:"checkpoint,omitempty"`
	// SharedOutput: another task had, or may have had, the same output file since this one began.
	SharedOutput bool `json:"shared_output,omitempty"`
	// BeganIn is the directory that it had on another machine, whose checkpoint it has gone on from; empty: it began here.
	BeganIn string `json:"began_in,omitempty"`
	// RanOn: the task has, or may have, run since Checkpoint was taken.
	RanOn bool `json:"ran_on,omitempty"`
	// Forfeit: after a kill to make room the task may start from the beginning
	// whatever RestartOnLoss says.
	Forfeit bool `json:"forfeit,omitempty"`
	// ImageDirs are the store directories that may hold images of the task.
	ImageDirs []string `json:"image_dirs,omitempty"`
	// Ratio is the learned share of the memory that an incremental dump writes; 0
	// when there was none.
	Ratio float64 `json:"ratio,omitempty"`
}

// Continuations are how often a task was continued by somebody while it was suspended.
type Continuations struct {
	Continued int `json:"continued,omitempty"`
	// ContinuedHere is what of that its present supervisor has told.
	ContinuedHere int `json:"continued_here,omitempty"`
	// ContinuedMs is when it was last heard of.
	ContinuedMs int64 `json:"continued_ms,omitempty"`
}

// Intent is an operation that has been decided on.
type Intent struct {
	Kind headrace.Operation `json:"kind"`
	// User: a person asked for it, not the policy.
	User bool `json:"user,omitempty"`
	// For is the task that room is made for.
	For     headrace.TaskID `json:"for,omitempty"`
	Store   string          `json:"store,omitempty"`
	Dir     string          `json:"dir,omitempty"`
	PageOut int64           `json:"page_out,omitempty"`
	Grace   time.Duration   `json:"grace,omitempty"`
	// Late: the task had ended before it was killed.
	Late bool `json:"-"`
	// Again: an earlier daemon had asked for it already.
	Again bool `json:"-"`
	// Began is when it was first asked for, a boot time; AtMs the wall clock's.
	Began  time.Duration `json:"began"`
	AtMs   int64         `json:"at_ms"`
	Delay  time.Duration `json:"delay,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// Doing returns what the intent, if there is one, does to the task.
func (in *Intent) Doing() headrace.Operation {
	if in == nil {
		return headrace.Idle
	}
	return in.Kind
}

// Image is a committed checkpoint.
type Image struct {
	Store    string        `json:"store"`
	Dir      string        `json:"dir"`
	Compress bool          `json:"compress,omitempty"`
	Seq      int           `json:"seq"`
	Chain    int           `json:"chain"`
	Stored   int64         `json:"stored"`
	Total    int64         `json:"total,omitempty"` // the memory that it holds; 0: written by a daemon that did not know it
	ToRead   int64         `json:"to_read"`
	TakenMs  int64         `json:"taken_ms"`
	Dump     time.Duration `json:"dump"`
	Restore  time.Duration `json:"restore,omitempty"`
}

// Memory returns how much memory the task has when it has been restored, in bytes, as far as is known.
func (im *Image) Memory() int64 { return cmp.Or(im.Total, im.ToRead) }

// What the history says beside the states that a task comes to and the operations that
// begin. docs/commands.md explains all of it to people.
const (
	Held         = "held"
	Released     = "released"
	PagedOut     = "paged out"
	Archived     = "archived"
	StoppedAgain = "stopped again"
	Trouble      = "trouble"
)

// Event is one line of a task's history.
type Event struct {
	AtMs int64 `json:"at_ms"`
	// State is the name of a headrace.TaskState or headrace.Operation, or one of the above.
	State  string        `json:"state"`
	Reason string        `json:"reason,omitempty"`
	Delay  time.Duration `json:"delay,omitempty"`
	Took   time.Duration `json:"took,omitempty"`
	Bytes  int64         `json:"bytes,omitempty"`
}

// Input is what a task reads.
type Input struct {
	// Stream deals it, to Of consumers of which the task is number Index; empty:
	// the command opens the files itself.
	Stream string     `json:"stream,omitempty"`
	Index  int        `json:"index,omitempty"`
	Of     int        `json:"of,omitempty"`
	Split  wire.Split `json:"split,omitempty"`
	// RecordSize is that of all records, in bytes; 0: they end otherwise.
	RecordSize int64 `json:"record_size,omitempty"`
	// Paths were asked for. Of the tasks of a stream only the first has them, and none that has ended.
	Paths []string `json:"paths,omitempty"`
	// Files and Bytes are those of the whole job, as found when it came.
	Files  int64 `json:"files"`
	Bytes  int64 `json:"bytes"`
	NoWarm bool  `json:"no_warm,omitempty"`
	// Dealt is what the stream had dealt when it ended; nil before.
	Dealt *data.Dealt `json:"dealt,omitempty"`
}

// Sent is durable of a task whose checkpoint was sent, or began to be.
type Sent struct {
	ID string `json:"id"`
	// Done: it is there.
	Done bool `json:"done,omitempty"`
}

// Meta is what is durable beside the tasks.
type Meta struct {
	Version int `json:"version"`
	// Boot is the boot of the machine in which a daemon last wrote.
	Boot string `json:"boot"`
	// Order is the number of the last submission; ids follow from it.
	Order uint64 `json:"order"`
	// MadeMs is when the records were begun, by the wall clock; 0: by a daemon that did not note it.
	MadeMs int64 `json:"made_ms,omitempty"`
	SwapSpeed
	// Stores are by directory.
	Stores map[string]Measure `json:"stores,omitempty"`
	// Renewed are the directories in which what was there was given up as the settings say, and say still: it is done once.
	Renewed []string `json:"renewed,omitempty"`
}

// SwapSpeed is how fast swap is, in bytes per second.
type SwapSpeed struct {
	SwapOut float64 `json:"swap_out,omitempty"`
	SwapIn  float64 `json:"swap_in,omitempty"`
	// SwapBoot is the boot in which swap was last measured.
	SwapBoot string `json:"swap_boot,omitempty"`
}

// Measure is what is known about a store: how fast it is, and which one.
type Measure struct {
	Write           float64       `json:"write"`
	Read            float64       `json:"read"`
	DumpOverhead    time.Duration `json:"dump_overhead"`
	RestoreOverhead time.Duration `json:"restore_overhead"`
	MeasuredMs      int64         `json:"measured_ms"`
	// ID is checkpoint.ID of it, InMemory: it does not outlive the machine.
	ID       string `json:"id,omitempty"`
	InMemory bool   `json:"in_memory,omitempty"`
}

// KeepsRoom tells whether its scheduler still counts the resources of a task that does not run.
func (r *Record) KeepsRoom() bool { return r.Keeps && r.State == headrace.Suspended }

func (r *Record) encode() ([]byte, error) {
	c := *r
	c.Version, c.StateName = version, r.State.String()
	return json.Marshal(&c)
}

func decode(data []byte) (*Record, error) {
	r := new(Record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	if r.Version > version {
		return nil, fmt.Errorf("record version %d was written by a newer headrace; this one knows %d", r.Version, version)
	}
	state, err := headrace.ParseTaskState(r.StateName)
	if err != nil {
		return nil, err
	}
	r.State = state
	if state.Final() {
		r.Condense() // older daemons did not
	}
	r.Name = serve.Label(r.Name) // older daemons gave tasks the name of their program, however long
	return r, nil
}

const maxHistory = 400

// mostReason bounds the reason for something, in bytes: it may come from a user's process, and many are kept.
const mostReason = 4 << 10

// cutShort ends a reason that was cut.
const cutShort = " ..."

// Short returns what is kept of a reason, as the protocol can carry it: it may have the name of a user's file.
func Short(reason string) string {
	if len(reason) <= mostReason {
		return serve.Shown(reason)
	}
	return strings.ToValidUTF8(reason[:mostReason], "") + cutShort
}

// Note appends to the history. Old entries in the middle go when it gets long;
// the first ones stay.
func (r *Record) Note(e Event) {
	e.Reason = Short(e.Reason)
	if len(r.History) < maxHistory {
		r.History = append(r.History, e)
		return
	}
	h := make([]Event, 0, maxHistory)
	h = append(h, r.History[:16]...)
	h = append(h, r.History[len(r.History)/4:]...)
	r.History = append(h, e)
}

// mostEnded bounds the reasons in the history of a task that has ended, in bytes: many such tasks are kept, and reasons may come
// from users' processes.
const mostEnded = 16 << 10

// Condense cuts the longest reasons in the history of a task that has ended, but for the last, which says why.
func (r *Record) Condense() {
	total := func(most int) (n int) {
		for _, e := range r.History[:max(0, len(r.History)-1)] {
			n += min(len(e.Reason), most)
		}
		return n
	}
	most := mostReason + len(cutShort)
	if total(most) <= mostEnded {
		return
	}
	for total(most) > mostEnded {
		most /= 2
	}
	short := slices.Clone(r.History) // others may read what there was
	for i := range short[:len(short)-1] {
		if reason := short[i].Reason; len(reason) > most {
			short[i].Reason = strings.ToValidUTF8(reason[:most-len(cutShort)], "") + cutShort
		}
	}
	r.History = short
}

// HasImagesIn tells whether a directory may hold images of the task.
func (s *Saved) HasImagesIn(dir string) bool {
	return slices.Contains(s.ImageDirs, dir) || s.Checkpoint != nil && s.Checkpoint.Dir == dir
}

// AddImageDir remembers that a directory may hold images of the task.
func (s *Saved) AddImageDir(dir string) {
	if !slices.Contains(s.ImageDirs, dir) {
		s.ImageDirs = append(slices.Clip(s.ImageDirs), dir)
	}
}
