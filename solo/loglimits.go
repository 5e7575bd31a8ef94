package solo

import (
	"context"

	"headrace"
	"headrace/tasklog"
)

// logKeeping is what the loop knows of keeping logs within limits.
type logKeeping struct {
	keeper tasklog.Keeper
	busy   bool // the keeper is at work
}

// keepLogs cuts logs of users who have more of them than they may, in the
// background.
func (l *loop) keepLogs() {
	if l.logs.busy {
		return
	}
	l.logs.busy = true
	tasks := l.logsToKeep()
	l.later(func() {
		l.background(func(context.Context) func() {
			cuts, err := l.logs.keeper.Keep(l.cfg.StateDir, tasks)
			return func() {
				l.logs.busy = false
				for _, c := range cuts {
					l.log.Warn("a log was cut", "id", c.Task, "held", c.Before, "reason", c.Why)
				}
				if err != nil {
					l.warn("logs", "logs are not kept within limits", "err", err)
				}
			}
		})
	})
}

// logsToKeep are the tasks that may have logs.
func (l *loop) logsToKeep() []tasklog.Task {
	tasks := make([]tasklog.Task, 0, len(l.tasks.ended))
	add := func(t *task) {
		if t.rec.Starts == 0 {
			return
		}
		stdout, stderr := l.rt.Logs(t.rec.ID)
		tasks = append(tasks, tasklog.Task{
			ID: string(t.rec.ID), UID: t.rec.UID, User: t.rec.User, Stdout: stdout, Stderr: stderr,
			Ended: t.rec.State.Final() && t.rec.State != headrace.Lost, Limit: l.limitsOf(t).LogBytes,
		})
	}
	for _, t := range l.tasks.ended {
		add(t)
	}
	for _, t := range l.tasks.active {
		add(t)
	}
	return tasks
}
