package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/report"
	"headrace/stream"
	"headrace/wire"
)

// openStream opens the stream that deals the input, with the daemon's own buffer
// if none is named.
func (s *service) openStream(ctx context.Context, q *wire.Input, cred linux.Credentials, in *input) error {
	limits, err := pagecache.ReadLimits()
	if err != nil {
		return err
	}
	spec := stream.Spec{Owner: cred, Paths: q.Paths, Rule: ruleOf(q), Consumers: in.Of}
	if spec.Buffer, err = bufferFor(q.Buffer, s.loop.cfg.Buffer, limits); err != nil {
		return err
	}
	if err := spec.Rule.Check(); err != nil {
		return refusal("%v", err)
	}
	if err := s.streamRoom(cred.UID); err != nil {
		return err
	}
	end, err := s.data.searches.begin(ctx, cred.UID)
	if err != nil {
		return err
	}
	defer end()
	info, err := s.loop.streams.Open(ctx, spec)
	if err != nil {
		return asRefusal(err)
	}
	in.Stream, in.Files, in.Bytes = info.ID, int64(info.Files), info.Bytes
	return nil
}

// bufferFor is the size of a stream's buffer: what is asked for, else the usual
// one of this daemon. It is at most half of what memory there is: a daemon that
// goes past the limit of its cgroup is killed.
func bufferFor(asked, usual int64, l pagecache.Limits) (int64, error) {
	left, of := l.Memory, "the machine"
	if l.Cgroup.Dir != "" && l.Cgroup.Left < left {
		left, of = l.Cgroup.Left, "the memory limit over the daemon"
	}
	most := left / 2
	switch {
	case most < stream.MinBuffer:
		return 0, refusal("a buffer takes %s or more, and %s leaves %s, of which it may take half; wait for other jobs, have less kept by headrace warm, or start the daemon with more memory",
			report.Bytes(stream.MinBuffer), of, report.Bytes(left))
	case asked > most:
		return 0, refusal("a buffer of %s is more than half of the %s that %s leaves; give a smaller --buffer, or start the daemon with more memory",
			report.Bytes(asked), report.Bytes(left), of)
	case asked > 0:
		return asked, nil
	}
	return min(cmp.Or(usual, stream.DefaultBuffer), most), nil
}

// maxStreams is how many streams an ordinary user may have open.
const maxStreams = 1000

func (s *service) streamRoom(uid uint32) error {
	if uid == 0 {
		return nil
	}
	n := 0
	for _, info := range s.loop.streams.List() {
		if info.UID == uid {
			n++
		}
	}
	if n >= maxStreams {
		return fmt.Errorf("%w: you have %d streams; wait until tasks that read have ended, or kill some", errBusy, n)
	}
	return nil
}

// asRefusal tells apart what is wrong with the files from what is wrong here.
func asRefusal(err error) error {
	var problem *fileset.Problem
	if errors.As(err, &problem) {
		return refusal("%s", shown(err.Error()))
	}
	return err
}
