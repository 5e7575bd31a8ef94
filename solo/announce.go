package solo

import (
	"fmt"
	"time"

	"headrace"
	"headrace/serve"
	"headrace/solo/request"
)

// announcements are of containers that will be started soon.
type announcements struct {
	clk clock
	all map[headrace.TaskID]announcement
}

func newAnnouncements(clk clock) *announcements {
	return &announcements{clk: clk, all: map[headrace.TaskID]announcement{}}
}

// announcement is a container that will be started soon.
type announcement struct {
	want *request.Task // all but the command
	// at is a boot time.
	at time.Duration
}

const (
	// announcedFor is how long an announcement is good for.
	announcedFor = 10 * time.Minute
	// maxAnnounced bounds those that nobody has come for.
	maxAnnounced = 10000
)

// add remembers a container until its process comes.
func (a *announcements) add(want *request.Task) error {
	now := a.clk.boot()
	if len(a.all) >= maxAnnounced {
		for id, old := range a.all {
			if now-old.at > announcedFor {
				delete(a.all, id)
			}
		}
	}
	if len(a.all) >= maxAnnounced {
		return fmt.Errorf("%w: %d containers are announced and have not come", serve.ErrBusy, len(a.all))
	}
	a.all[want.Record.ID] = announcement{want: want, at: now}
	return nil
}

// expected returns the announced container for which a process of a user has come.
func (a *announcements) expected(id headrace.TaskID, uid uint32) (*request.Task, error) {
	found, ok := a.all[id]
	switch {
	case !ok || a.clk.boot()-found.at > announcedFor:
		return nil, fmt.Errorf("%w: container %.140q has not been announced, or too long ago", serve.ErrNotFound, id)
	case uid != found.want.Record.UID && uid != 0:
		return nil, fmt.Errorf("%w: container %s belongs to another user", serve.ErrDenied, id)
	}
	return found.want, nil
}
