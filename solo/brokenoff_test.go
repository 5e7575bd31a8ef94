package solo

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"headrace"
	"headrace/policy"
	"headrace/wire"
)

// beginCheckpoint asks for a checkpoint whose dump does not end before it is told
// to; what the caller hears of it comes through heard.
func (b *bed) beginCheckpoint(id headrace.TaskID) (heard <-chan error, goOn func()) {
	b.t.Helper()
	began, hold := make(chan struct{}), make(chan struct{})
	b.conn.dumping = func(headrace.TaskID) <-chan struct{} {
		close(began)
		return hold
	}
	answer := make(chan error, 1)
	go func() {
		_, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)})
		answer <- err
	}()
	<-began
	return answer, func() { close(hold) }
}

// TestDaemonEndsDuringCheckpoint: who waits for a checkpoint hears that the daemon
// has gone, and not that somebody has interrupted the waiting.
func TestDaemonEndsDuringCheckpoint(t *testing.T) {
	for range 20 {
		b := newBed(t, policy.Suspend)
		b.start()
		id := b.run(headrace.Normal)
		b.awaitState(id, headrace.Running)
		heard, goOn := b.beginCheckpoint(id)
		b.shutdown()
		goOn()
		err := <-heard
		if code := connect.CodeOf(err); err == nil || code == connect.CodeCanceled || connect.IsWireError(err) && !strings.Contains(err.Error(), "the daemon is ending") {
			t.Fatalf("checkpoint during the end of the daemon: %v (%v)", err, code)
		}
	}
}

// TestKillDuringCheckpoint: the caller of the checkpoint hears why there is none.
func TestKillDuringCheckpoint(t *testing.T) {
	b := newBed(t, policy.Suspend)
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	heard, goOn := b.beginCheckpoint(id)
	defer goOn()
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(id)}); err != nil {
		t.Fatal(err)
	}
	err := <-heard
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(errors.Unwrap(err).Error(), "more urgent was asked") {
		t.Errorf("a checkpoint that a kill has broken off: %v", err)
	}
}
