package proc

import (
	"time"

	"headrace"
	"headrace/internal/linux/cgroup"
)

// ProgressEnv names the environment variable that holds the path of a file in
// which a task may write the share of its work that is done, as a number from 0
// to 1 in decimal text, overwriting it as often as it likes.
const ProgressEnv = "HEADRACE_PROGRESS_FILE"

// ProgressFile is the name of that file, in the task's directory.
const ProgressFile = "progress"

// TaskIDEnv names the environment variable that holds the task's id.
const TaskIDEnv = "HEADRACE_TASK_ID"

// Spec says what to run. It is inert and is written to the task's directory.
type Spec struct {
	ID   headrace.TaskID `json:"id"`
	Argv []string        `json:"argv"`
	// Under, if not empty, are arguments of headrace-shim that make it run Argv:
	// the task's first process is then headrace-shim Under... -- Argv...
	Under []string `json:"under,omitempty"`
	// Env is the whole environment; TaskIDEnv and ProgressEnv are added.
	Env []string `json:"env"`
	// Cwd is the absolute working directory.
	Cwd   string `json:"cwd"`
	Umask uint32 `json:"umask"`
	// User is who runs it. Ignored when the daemon is not root.
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`

	// PIDVar names a variable of the environment that gets the pid of the command,
	// as the task's processes know it; empty: none.
	PIDVar string `json:"pid_var,omitempty"`
	// Limits are set as far as the daemon's rights go. Resources that are not named
	// have the daemon's own limits.
	Limits []Limit `json:"limits,omitempty"`
	// Nice is the niceness; nil: the daemon's.
	Nice *int `json:"nice,omitempty"`
	// OOMScoreAdj is what /proc/PID/oom_score_adj gets.
	OOMScoreAdj int `json:"oom_score_adj,omitempty"`

	// Stdin is a path, opened as the user; empty for no input.
	Stdin string `json:"stdin,omitempty"`
	// Output is a path for standard output and error together, opened as the
	// user and appended to. Empty: stdout and stderr in the task's directory.
	Output string `json:"output,omitempty"`
	// SharedOutput: others write to it as well, so that it is never cut back.
	SharedOutput bool `json:"shared_output,omitempty"`
	// Stdout and Stderr are, without an Output, such paths for one of them each.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Attached: the task runs for a process that holds the other end of its lifeline
	// (Stdio), and not beyond it. Such a task is restored by the supervisor that has
	// the lifeline, or not at all.
	Attached bool `json:"attached,omitempty"`
	// Cgroups are directories of cgroups that the task is put in, at most one of
	// each hierarchy.
	Cgroups []string `json:"cgroups,omitempty"`
	// Memory, CPUs, PIDs and IOWeight are what the task's own cgroup is to hold it to,
	// as cgroup.Limits.
	Memory   int64   `json:"memory,omitempty"`
	CPUs     float64 `json:"cpus,omitempty"`
	PIDs     int64   `json:"pids,omitempty"`
	IOWeight int     `json:"io_weight,omitempty"`
	// Own is the task's own cgroup; the Runtime fills it in.
	Own cgroup.Group `json:"own"`
}

// Limit is a resource limit, as for setrlimit(2): a RLIMIT_ number and values in
// its unit, math.MaxUint64 for none.
type Limit struct {
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// Exit is how a task ended. Code is the exit code, or 128 + Signal when it was
// ended by a signal.
type Exit struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// StartError says why the command could not be started; then Code is 126 or
	// 127 as a shell would have it.
	StartError string `json:"start_error,omitempty"`
	// Lacking: that was for want of something that there may be later, as a part of this
	// program said before it had become the user. MayPass: one said so that was the user's
	// already; it may be a limit of the user's own, or untrue.
	Lacking bool `json:"lacking,omitempty"`
	MayPass bool `json:"may_pass,omitempty"`
	// Lost: the supervisor vanished without a record of the end.
	Lost bool `json:"lost,omitempty"`
	// Abandoned: the process that it was attached to went away, and the task was
	// ended for that reason, or, with a StartError, was not started.
	Abandoned bool `json:"abandoned,omitempty"`
	// Restored: it was running because of a restore; without it the end may be that of
	// a supervisor that waited for one.
	Restored bool `json:"restored,omitempty"`
	// OutOfMemory: the kernel had ended a process of it for lack of memory.
	OutOfMemory bool `json:"out_of_memory,omitempty"`
	// KilledForUser: KillForUser had been called before it ended.
	KilledForUser bool      `json:"killed_for_user,omitempty"`
	Usage         Usage     `json:"usage"`
	At            time.Time `json:"at"`
}

// EndsRestore reports whether a task has been restored and has ended since, when the
// last end that was taken in was at seen. To restore it then would do its work twice.
func (e Exit) EndsRestore(seen time.Time) bool {
	return e.Restored && !e.Lost && !e.At.Equal(seen)
}

// Usage is what a task has used over all its incarnations.
type Usage struct {
	User   time.Duration `json:"user"`
	System time.Duration `json:"system"`
	// Running is the time in which its processes were not stopped or dumped.
	Running time.Duration `json:"running"`
	// OverheadCPU is processor time of dumps and restores, not part of User and
	// System.
	OverheadCPU  time.Duration `json:"overhead_cpu"`
	MaxResident  int64         `json:"max_resident"`
	ReadBytes    int64         `json:"read_bytes"`
	WrittenBytes int64         `json:"written_bytes"`
}

// Plus returns what was used by u and more together.
func (u Usage) Plus(more Usage) Usage {
	u.User += more.User
	u.System += more.System
	u.Running += more.Running
	u.OverheadCPU += more.OverheadCPU
	u.MaxResident = max(u.MaxResident, more.MaxResident)
	u.ReadBytes += more.ReadBytes
	u.WrittenBytes += more.WrittenBytes
	return u
}

// Stats is what a task uses now.
type Stats struct {
	State headrace.TaskState `json:"state"`
	Usage Usage              `json:"usage"`
	// Resident and Swapped are what its processes hold together: by the task's
	// cgroup anonymous and shared memory; without one, shared memory and files are
	// divided among those that share them, and Swapped counts what is shared for each.
	Resident int64 `json:"resident"`
	Swapped  int64 `json:"swapped"`
	// Dirty is an upper bound of what a full dump has to write.
	Dirty     int64 `json:"dirty"`
	Processes int   `json:"processes"`
	// Asked is how many bytes those of its processes that live, and those that they have waited
	// for, have read by system calls, from wherever.
	Asked int64 `json:"asked,omitempty"`
	// Continued counts how often the task, while it was suspended, was continued by
	// somebody and stopped again.
	Continued int `json:"continued,omitempty"`
	// Outside says of which directories of its cgroup the task is not, and why: what is limited
	// or shared out there does not hold for it. Empty: it is in all.
	Outside string `json:"outside,omitempty"`
	// SinceSave is the work since the start or the last checkpoint.
	SinceSaveCPU  time.Duration `json:"since_save_cpu"`
	SinceSaveWall time.Duration `json:"since_save_wall"`
	// Share is what the task says is done, negative when it does not.
	Share float64 `json:"share"`
}

// SuspendResult tells how the processes came to a stop.
type SuspendResult struct {
	Took time.Duration `json:"took"`
	// Forced is the number of processes whose grace for handling SIGTSTP was over
	// before they had stopped.
	Forced    int `json:"forced"`
	Processes int `json:"processes"`
}

// CheckpointOptions chooses where a checkpoint goes.
type CheckpointOptions struct {
	// CRIU is the path of CRIU; empty: as the supervisor was started with. An older supervisor uses that in any case.
	CRIU string `json:"criu,omitempty"`
	// Store is the directory of the checkpoint store.
	Store string `json:"store"`
	// StoreID is the store's mark (checkpoint.ID): where the supervisor sees another store, or none, the error is
	// ErrNotNow and nothing is written. Empty: whatever is in Store, which is made if it is not there.
	StoreID string `json:"store_id,omitempty"`
	// MaxDeleted is how many bytes those files may hold that the task has open and that were deleted, which become
	// part of the checkpoint: beyond it the error is ErrNotNow. 0: as many as there is room for.
	MaxDeleted int64 `json:"max_deleted,omitempty"`
	// Compress stores pages compressed.
	Compress bool `json:"compress,omitempty"`
	// Full writes every page even when an earlier checkpoint could be built on.
	Full bool `json:"full,omitempty"`
	// Asked names the request, in whatever way the caller tells requests apart: the checkpoint carries it (package shim,
	// AskedOf). 0: it has no name.
	Asked time.Duration `json:"asked,omitempty"`
}

// CheckpointResult is a checkpoint that is durable; the processes are gone.
type CheckpointResult struct {
	Seq   int `json:"seq"`
	Chain int `json:"chain"`
	// Stored was written now, Total is the size of the task's memory image,
	// ToRead is what a restore reads over the whole chain.
	Stored int64 `json:"stored"`
	Total  int64 `json:"total"`
	ToRead int64 `json:"to_read"`
	// Stop, Dump, Sync and Took are the times of its parts and of the whole.
	Stop time.Duration `json:"stop"`
	Dump time.Duration `json:"dump"`
	Sync time.Duration `json:"sync"`
	Took time.Duration `json:"took"`
}

// RestoreOptions says where the checkpoint is.
type RestoreOptions struct {
	// CRIU is as in CheckpointOptions.
	CRIU  string `json:"criu,omitempty"`
	Store string `json:"store"`
	// StoreID is as in CheckpointOptions.
	StoreID string `json:"store_id,omitempty"`
	// Seq is the checkpoint to use; 0: the newest that is intact.
	Seq      int  `json:"seq,omitempty"`
	Compress bool `json:"compress,omitempty"`
	// Last is the number of the last checkpoint that was taken, as far as the
	// caller knows: the task has run on after any older one, even if the last is
	// not there any more.
	Last int `json:"last,omitempty"`
	// RanOn tells that the task has run since the checkpoint was taken. Then its
	// logs are cut back to what they held, and the restore is refused if another
	// file that was open for writing has changed.
	RanOn bool `json:"ran_on,omitempty"`
	// SharedOutput is as in Spec; it also counts when it has come to be so since the start.
	SharedOutput bool `json:"shared_output,omitempty"`
	// Scratch is a directory for decompression.
	Scratch string `json:"scratch,omitempty"`
	// SeenExit is when the last end of the task happened that the caller has taken in,
	// zero if none (Exit.EndsRestore).
	SeenExit time.Time `json:"-"`
	// MovedFrom is the directory of the task that the checkpoint was taken of, when
	// that was another one, maybe on another machine: shim.Portable.TaskDir.
	MovedFrom string `json:"moved_from,omitempty"`
}

// RestoreResult tells what was restored.
type RestoreResult struct {
	Seq    int           `json:"seq"`
	Read   int64         `json:"read"`
	Verify time.Duration `json:"verify"`
	Took   time.Duration `json:"took"`
	// Skipped lists newer checkpoints that could not be used, and why.
	Skipped []string `json:"skipped,omitempty"`
}
