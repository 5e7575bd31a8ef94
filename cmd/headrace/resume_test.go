package main

import (
	"errors"
	"testing"

	"headrace/cli"
	"headrace/wire"
)

func TestGoesOn(t *testing.T) {
	hosting := &wire.Hosting{Scheduler: "yarn"}
	refused := errors.New("no")
	for _, c := range []struct {
		task *wire.Task
		err  error
		code int
	}{
		{&wire.Task{Id: "t1", State: "suspended"}, nil, 0}, // waits for a slot here
		{&wire.Task{Id: "c1", State: "running", Hosting: hosting}, nil, 0},
		{&wire.Task{Id: "c1", State: "suspended", Hosting: hosting}, nil, cli.ExitWaits},
		{&wire.Task{Id: "c1", State: "checkpointed", Hosting: hosting}, nil, cli.ExitWaits},
		{nil, refused, cli.ExitFailure},
	} {
		_, err := goesOn(c.task, c.err)
		if code, _ := cli.Outcome(err); code != c.code {
			t.Errorf("%v, %v: exit code %d (%v), want %d", c.task, c.err, code, err, c.code)
		}
	}
}
