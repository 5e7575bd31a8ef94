package main

import (
	"context"
	"time"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
)

// worthSaying is how long a task waits before who follows it is told.
const worthSaying = time.Second / 2

// tellWaiting says what a task waits for while it does not run, and when it runs
// again, until stop is called. Without an answer it is silent: others say that.
func (w *runWait) tellWaiting(ctx context.Context, id string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	states := make(chan *wire.Task)
	go func() {
		defer close(states)
		stream, err := w.Watch(ctx, &wire.WatchRequest{Id: id})
		if err != nil {
			return
		}
		defer stream.Close()
		for stream.Receive() {
			for _, t := range stream.Msg().Tasks {
				select {
				case states <- t:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	go func() {
		defer close(over)
		w.tellStates(id, states)
	}()
	return func() {
		cancel()
		<-over
	}
}

// tellStates says each state in which the task does not run and that lasts.
func (w *runWait) tellStates(id string, states <-chan *wire.Task) {
	var now *wire.Task
	said := ""
	timer := time.NewTimer(worthSaying)
	defer timer.Stop()
	for {
		select {
		case t, more := <-states:
			if !more {
				return
			}
			if convert.In(t, headrace.Running) && said != "" {
				w.say("task %s is running", id)
				said = ""
			}
			if now == nil || convert.StateName(t) != convert.StateName(now) {
				timer.Reset(worthSaying)
			}
			now = t
		case <-timer.C:
			if now != nil && !convert.In(now, headrace.Running) && !ended(now) && said != convert.StateName(now) {
				said = convert.StateName(now)
				w.say("task %s is %s%s", id, stateOf(now), because(now.Reason))
			}
		}
	}
}
