package solo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"headrace"
	"headrace/proc"
	"headrace/tasklog"
)

// logKeeping keeps logs within limits.
type logKeeping struct {
	*core
	admission *admission
	keeper    tasklog.Keeper
	busy      atomic.Bool // the keeper is at work
}

func newLogKeeping(c *core, admission *admission) *logKeeping {
	return &logKeeping{core: c, admission: admission, keeper: tasklog.Keeper{Open: filepath.Join(c.cfg.StateDir, proc.OpenLogs)}}
}

// keep cuts logs of users who have more of them than they may, in the
// background.
func (k *logKeeping) keep() {
	if k.busy.Load() {
		return
	}
	tasks := k.kept()
	k.background(func(context.Context) func() {
		if !k.busy.CompareAndSwap(false, true) { // only now: what begins after the commit must not be in the way of keepNow
			return nil
		}
		cuts, err := k.keeper.Keep(k.cfg.StateDir, tasks)
		k.busy.Store(false)
		return func() { k.did(cuts, err) }
	})
}

// makeRoom is for a loop that cannot go on because the disk is full: the logs of ended tasks that are to be forgotten go now, the
// rest of that when it can be recorded, and other logs are kept within limits.
func (k *logKeeping) makeRoom() {
	for _, id := range k.ledger.takeUnwanted() {
		t := k.tasks.all[id]
		if t == nil || !t.rec.State.Final() {
			continue
		}
		stdout, stderr := k.rt.Logs(id)
		for _, path := range []string{stdout, stderr} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				k.log.Warn("a log cannot be removed", "id", id, "err", err)
			}
		}
	}
	k.keepNow()
}

// keepNow is keep, for a loop that cannot go on because the disk is full: what the keeper gives back may be all that it takes.
func (k *logKeeping) keepNow() {
	if !k.busy.CompareAndSwap(false, true) {
		return
	}
	defer k.busy.Store(false)
	k.did(k.keeper.Keep(k.cfg.StateDir, k.kept()))
}

func (k *logKeeping) did(cuts []tasklog.Cut, err error) {
	for _, c := range cuts {
		k.log.Warn("a log was cut", "id", c.Task, "held", c.Before, "reason", c.Why)
	}
	if err != nil {
		k.warn("logs", "logs are not kept within limits", "err", err)
	}
}

// kept returns the tasks that may have logs.
func (k *logKeeping) kept() []tasklog.Task {
	tasks := make([]tasklog.Task, 0, len(k.tasks.ended))
	add := func(t *task) {
		if t.rec.Starts == 0 {
			return
		}
		stdout, stderr := k.rt.Logs(t.rec.ID)
		tasks = append(tasks, tasklog.Task{
			ID: string(t.rec.ID), UID: t.rec.UID, User: t.rec.User, Stdout: stdout, Stderr: stderr,
			Progress: filepath.Join(filepath.Dir(stdout), proc.ProgressFile),
			Ended:    t.rec.State.Final() && t.rec.State != headrace.Lost, Limit: k.admission.limitsOf(t).LogBytes,
		})
	}
	for _, t := range k.tasks.ended {
		add(t)
	}
	for _, t := range k.tasks.active {
		add(t)
	}
	return tasks
}
