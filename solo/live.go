package solo

import (
	"context"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/proc"
)

// Runtime starts and finds the process trees of tasks. Its methods may block
// and are called concurrently, for one task one at a time. Package proc
// implements it on the operating system.
type Runtime interface {
	// Watch is called before all others: silent is to be told of supervisors that do not answer (proc.Runtime.Silent).
	Watch(silent func(headrace.TaskID, error))
	// Start runs a task from the beginning, with the pipes of stdio in place of
	// what the spec says; the caller may close them afterwards. A command that cannot be executed is
	// no error: the Task has ended with an Exit that says so. After an error
	// nothing of the task is running.
	Start(ctx context.Context, spec proc.Spec, stdio proc.Stdio) (Task, error)
	// Attach finds a task whose supervisor is alive, else it fails with
	// proc.ErrGone.
	Attach(ctx context.Context, id headrace.TaskID) (Task, error)
	// Tasks lists those that have a directory.
	Tasks() ([]headrace.TaskID, error)
	// Supervisors returns the pids of those that supervise tasks, also of those that cannot be reached.
	Supervisors() (map[headrace.TaskID]int, error)
	// Unreached returns why a task for which nobody answers is not to be begun again: a supervisor of it runs.
	Unreached(id headrace.TaskID) error
	// SpecOf reads what a task was last started or restored with.
	SpecOf(id headrace.TaskID) (proc.Spec, error)
	// ExitOf reads the recorded end of a task that has no supervisor.
	ExitOf(id headrace.TaskID) (proc.Exit, bool, error)
	// Begun reports whether the command of a task that has no supervisor may have been
	// started or restored since a time of a boot.
	Begun(id headrace.TaskID, boot string, since time.Duration) (bool, error)
	// Restore continues a task from a checkpoint. It fails with proc.ErrNoImage
	// when none can be used.
	Restore(ctx context.Context, spec proc.Spec, opts proc.RestoreOptions) (Task, proc.RestoreResult, error)
	// End ends whatever is left of a task, its supervisor too, even if that is in the
	// middle of something or does not answer.
	End(ctx context.Context, id headrace.TaskID) error
	// Conclude lets go of what is kept for a task that has ended and will not be brought back: connections that a dump
	// holds, and a long command.
	Conclude(id headrace.TaskID) error
	// Reset makes a task's directory as it was before its first start and ends
	// whatever is left of it.
	Reset(ctx context.Context, spec proc.Spec) error
	// SharingOutput returns those of others that have the same output file as a task that has been started, and why it is not known of some.
	SharingOutput(id headrace.TaskID, others []headrace.TaskID) ([]headrace.TaskID, error)
	// Remove forgets a task's directory.
	Remove(ctx context.Context, id headrace.TaskID) error
	// Hold makes the supervisor of a hosted task; its command is started, or restored,
	// afterwards.
	Hold(ctx context.Context, spec proc.Spec, stdio proc.Stdio) (Task, error)
	// Program returns the path of headrace-shim as the tasks run it, which any user may
	// execute.
	Program() (string, error)
	// Logs returns the files in which the task's output is kept.
	Logs(id headrace.TaskID) (stdout, stderr string)
}

// Task is a task that has a supervisor. See proc.Task for the contracts.
type Task interface {
	Start(ctx context.Context) error
	RestoreMoved(ctx context.Context, opts proc.RestoreOptions) (proc.RestoreResult, error)
	Suspend(ctx context.Context, grace time.Duration) (proc.SuspendResult, error)
	Resume(ctx context.Context) error
	PageOut(ctx context.Context, bytes int64) (int64, error)
	PageIn(ctx context.Context) (int64, error)
	Checkpoint(ctx context.Context, opts proc.CheckpointOptions) (proc.CheckpointResult, error)
	Kill(ctx context.Context, grace time.Duration) error
	KillForUser(ctx context.Context, grace time.Duration) error
	Dismiss(ctx context.Context) error
	Stats(ctx context.Context) (proc.Stats, error)
	Positions() (map[linux.FileID]int64, error)
	Exited() <-chan struct{}
	Exit() proc.Exit
	Close()
}

// Images knows the checkpoints that are on storage.
type Images interface {
	// Latest returns the newest committed checkpoint of a task in the store in a directory;
	// false without one. It is an error, also in the methods below, if the store that has storeID is not there; empty:
	// whatever is in the directory.
	Latest(dir, storeID string, id headrace.TaskID) (ImageInfo, bool, error)
	// Collect removes what no restore will read any more.
	Collect(dir, storeID string, id headrace.TaskID) error
	// Remove removes all checkpoints of a task.
	Remove(dir, storeID string, id headrace.TaskID) error
	// Measure finds out the bandwidths of a store by writing and reading a small
	// file, in bytes per second.
	Measure(ctx context.Context, store string) (write, read float64, err error)
}

// ImageInfo is a committed checkpoint as found on storage; sizes as in
// proc.CheckpointResult.
type ImageInfo struct {
	Seq, Chain            int
	Stored, Total, ToRead int64
	At                    time.Time
	// Asked is proc.CheckpointOptions.Asked; 0: it is not known.
	Asked time.Duration
}
