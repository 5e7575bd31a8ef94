package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"headrace/pagecache"
	"headrace/report"
	"headrace/stream"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// streamService opens streams for programs that consume them themselves.
type streamService struct{ *service }

var _ wireconnect.StreamServiceHandler = streamService{}

// Open makes a stream; see wire.
func (s streamService) Open(ctx context.Context, q *wire.OpenStreamRequest) (*wire.StreamInfo, error) {
	by, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	info, err := s.open(ctx, q, by)
	if err != nil {
		return nil, coded(err)
	}
	return s.wireStream(info), nil
}

func (s streamService) open(ctx context.Context, q *wire.OpenStreamRequest, by caller) (stream.Info, error) {
	if q.Input == nil {
		return stream.Info{}, refusal("no input is named")
	}
	if err := checkInput(q.Input); err != nil {
		return stream.Info{}, err
	}
	if q.Input.Split == wire.Split_SPLIT_NONE {
		return stream.Info{}, refusal("a stream needs a split: lines, fixed, raw or files")
	}
	if len(q.Name) > maxName {
		return stream.Info{}, refusal("the name has %d bytes; at most %d are allowed", len(q.Name), maxName)
	}
	cred, err := by.credentials()
	if err != nil {
		return stream.Info{}, err
	}
	return s.newStream(ctx, stream.Spec{
		Owner: cred, Name: q.Name, Paths: q.Input.Paths, Rule: ruleOf(q.Input),
		Consumers: int(max(1, q.Consumers)), Buffer: q.Input.Buffer, External: true,
	})
}

// newStream opens a stream, with the daemon's own buffer if none is named.
func (s *service) newStream(ctx context.Context, spec stream.Spec) (stream.Info, error) {
	limits, err := pagecache.ReadLimits()
	if err != nil {
		return stream.Info{}, err
	}
	if spec.Buffer, err = bufferFor(spec.Buffer, s.loop.cfg.Buffer, limits); err != nil {
		return stream.Info{}, err
	}
	if err := spec.Rule.Check(); err != nil {
		return stream.Info{}, refusal("%v", err)
	}
	if err := s.streamRoom(spec.Owner.UID); err != nil {
		return stream.Info{}, err
	}
	end, err := s.data.searches.begin(ctx, spec.Owner.UID)
	if err != nil {
		return stream.Info{}, err
	}
	defer end()
	info, err := s.loop.streams.Open(ctx, spec)
	return info, asRefusal(err)
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
		return fmt.Errorf("%w: you have %d streams; forget tasks that have ended, or close some", errBusy, n)
	}
	return nil
}

// Get tells about one stream.
func (s streamService) Get(ctx context.Context, q *wire.GetStreamRequest) (*wire.StreamInfo, error) {
	info, err := s.seen(ctx, q.Id)
	if err != nil {
		return nil, coded(err)
	}
	return s.wireStream(info), nil
}

// seen is a stream that the caller may see.
func (s streamService) seen(ctx context.Context, id string) (stream.Info, error) {
	by, err := callerOf(ctx)
	if err != nil {
		return stream.Info{}, err
	}
	info, err := s.loop.streams.Info(id)
	if err != nil || !by.viewer().sees(info.UID) {
		return stream.Info{}, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no stream %q of yours", id))
	}
	return info, nil
}

// List tells about the caller's streams.
func (s streamService) List(ctx context.Context, q *wire.ListStreamsRequest) (*wire.ListStreamsResponse, error) {
	by, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	res := &wire.ListStreamsResponse{}
	for _, info := range s.loop.streams.List() {
		if by.viewer().sees(info.UID) && (q.All || info.External) {
			res.Streams = append(res.Streams, s.wireStream(info))
		}
	}
	return res, nil
}

// Close forgets a stream.
func (s streamService) Close(ctx context.Context, q *wire.CloseStreamRequest) (*wire.CloseStreamResponse, error) {
	info, err := s.seen(ctx, q.Id)
	if err != nil {
		return nil, coded(err)
	}
	if !info.External {
		return nil, connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("stream %s belongs to tasks and ends with them; kill or forget these", q.Id))
	}
	if err := s.loop.streams.Remove(q.Id); err != nil && !errors.Is(err, stream.ErrUnknown) {
		return nil, coded(err)
	}
	return &wire.CloseStreamResponse{}, nil
}

func (s *service) wireStream(in stream.Info) *wire.StreamInfo {
	w := &wire.StreamInfo{
		Id: in.ID, Name: in.Name, Job: s.board.jobOf(in.ID), User: userName(in.UID), Split: wireSplit(in.Rule),
		Files: int64(in.Files), Bytes: in.Bytes, Units: uint32(in.Units),
		DealtUnits: uint32(in.Dealt), Dealt: in.DealtBytes,
		CommittedUnits: uint32(in.Committed), Committed: in.CommittedBytes,
		Readers: uint32(in.Readers), Error: shown(in.Error), Socket: s.loop.cfg.streamSocket(),
	}
	for i, c := range in.Consumers {
		w.Consumers = append(w.Consumers, &wire.StreamConsumer{
			Index: uint32(i), Attempt: uint32(c.Attempt), State: c.State, Units: uint32(c.Units),
		})
	}
	return w
}

func wireSplit(r stream.Rule) wire.Split {
	switch r.Split {
	case stream.Lines:
		return wire.Split_SPLIT_LINES
	case stream.Fixed:
		return wire.Split_SPLIT_FIXED
	case stream.Files:
		return wire.Split_SPLIT_FILES
	}
	return wire.Split_SPLIT_RAW
}
