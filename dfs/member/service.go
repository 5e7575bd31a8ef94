package member

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"connectrpc.com/connect"

	"headrace/dfs"
	"headrace/dfs/names"
	"headrace/dfs/peer"
	"headrace/ring"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// service answers other nodes.
type service struct{ *Circle }

var _ wireconnect.RingServiceHandler = service{}

// Ping answers.
func (s service) Ping(context.Context, *wire.RingPingRequest) (*wire.RingPingResponse, error) {
	return &wire.RingPingResponse{}, nil
}

// Beat notes that a node is there, and where.
func (s service) Beat(ctx context.Context, q *wire.RingBeatRequest) (*wire.RingBeatResponse, error) {
	m, err := s.member(q.Member, q.Pool)
	if err != nil {
		return nil, err
	}
	v := s.node.View()
	stranger := connect.NewError(connect.CodeNotFound, fmt.Errorf("node %s is none of the ring", m.Name))
	known, ok := v.Members[m.Name]
	if !ok {
		return nil, stranger
	}
	if err := refuseOld(v, m); err != nil {
		return nil, err
	}
	m = s.standing(v, m)
	m.Number = known.Number
	a := &wire.RingBeatResponse{Noted: s.node.Leads()}
	s.mu.Lock()
	delete(s.moved, m.Name)
	if v.As(m) != known && !a.Noted {
		s.moved[m.Name] = m
	}
	s.mu.Unlock()
	if a.Noted {
		if v, err = s.place(ctx, v, m); errors.Is(err, ring.ErrUnknown) {
			return nil, stranger
		} else if err != nil {
			return nil, err
		}
		s.note(m.Name, q.GetHostName(), understood{m.Version, v.Term}, ring.Beat{At: s.now(), Unreachable: q.Unreachable})
		s.noteRoom(m.Name, dfs.RoomFrom(q.GetRoom()))
	}
	if v.Table.Epoch() != q.Epoch || v.Index != q.Index || v.Term != q.Term || v.Leader != q.Leader {
		a.View = v.Encode()
	}
	return a, nil
}

// note notes a beat.
func (s service) note(name, host string, u understood, b ring.Beat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats[name], s.hosts[name], s.says[name] = b, host, u
}

// noteRoom notes what a node has on its disks.
func (s service) noteRoom(name string, room dfs.Room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rooms[name] = room; room.Capacity > 0 {
		s.stored[name] = s.now()
	}
}

// member is the node of a message, if it can be one of this file system.
func (s service) member(w *wire.RingMember, pool string) (dfs.Member, error) {
	m := dfs.Member{Name: w.GetName(), Storage: w.GetStorage(), Host: w.GetHost(), Rack: w.GetRack(), Version: max(1, w.GetVersion())}
	ports := true
	for to, p := range map[*uint16]uint32{&m.RPC: w.GetRpcPort(), &m.Data: w.GetDataPort(), &m.Web: w.GetWebPort(), &m.Peer: w.GetPeerPort()} {
		*to = uint16(p)
		ports = ports && p < 1<<16
	}
	_, err := netip.ParseAddr(m.Host)
	switch {
	case pool != "" && pool != s.system.Pool:
		return m, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the node belongs to another file system: its blocks are of %.64s, those here of %s", pool, s.system.Pool))
	case m.Name == "" || len(m.Name) > mostName || len(m.Storage) > mostName || len(m.Rack) > mostName, err != nil, !ports, m.Peer == 0, m.Data == 0, m.RPC == 0:
		return m, connect.NewError(connect.CodeInvalidArgument, errors.New("what is to be a node has no name, no IP address, or no port"))
	}
	return m, nil
}

// mostName is the longest name of a node, a storage or a rack, in bytes.
const mostName = 255

// Join enters a node, by whoever leads. One that is new has to be reached by that one, and by the one that it asks.
func (s service) Join(ctx context.Context, q *wire.RingJoinRequest) (*wire.RingJoinResponse, error) {
	m, err := s.member(q.Member, q.Pool)
	if err == nil && q.Pool == "" {
		err = s.reached(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	var a *wire.RingJoinResponse
	err = s.lead(ctx, func() (bool, error) {
		// Whoever has a file system was admitted once. That it is still known, and which version is in force, is asked by an event that changes nothing, as a node that
		// has begun to lead may not know all yet.
		_, err := s.node.ChangeRing(ctx, ring.Confirm{Node: m.Name})
		if errors.Is(err, ring.ErrUnknown) && q.Pool == "" {
			err = nil
		}
		if err == nil {
			a, err = s.admit(ctx, m, q.Pool != "")
		}
		if errors.Is(err, ring.ErrUnknown) {
			err = connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("node %s was removed, and what it has counts no more", m.Name))
		}
		return undone(err) || errors.Is(err, dfs.ErrUncertain), err
	}, func(leader dfs.Member) (bool, error) {
		if q.Passed {
			return false, connect.NewError(connect.CodeUnavailable, &dfs.NotLeader{Leader: leader.Name})
		}
		var err error
		a, err = s.client(targetOf(leader)).Join(ctx, &wire.RingJoinRequest{Member: q.Member, Pool: q.Pool, Passed: true})
		return err != nil && connect.CodeOf(err) == connect.CodeUnavailable, err
	})
	if old := asOld(err); old != nil { // on the way its header was lost
		return nil, tooOld(old)
	}
	return a, err
}

// admit enters a node. One that was a member is refused when it is none any more.
func (s service) admit(ctx context.Context, m dfs.Member, was bool) (*wire.RingJoinResponse, error) {
	v := s.node.View()
	if err := refuseOld(v, m); err != nil {
		return nil, err
	}
	m = s.standing(v, m)
	if m.Number = v.Members[m.Name].Number; was && m.Number == 0 {
		return nil, ring.ErrUnknown
	}
	v, number, err := s.node.Admit(ctx, m)
	if err != nil {
		return nil, err
	}
	return &wire.RingJoinResponse{FileSystem: s.system, Number: number, View: v.Encode()}, nil
}

// reachTries is how often a node is asked whether it is there, beatTime each, before it is refused.
const reachTries = 3

// reached refuses what is to be a node and is not where it says that it is. It would be given a seat and copies, and others would wait for it.
func (s service) reached(ctx context.Context, m dfs.Member) (err error) {
	for range reachTries {
		try, cancel := context.WithTimeout(ctx, beatTime)
		_, err = s.client(targetOf(m)).Ping(try, &wire.RingPingRequest{})
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("node %s does not reach the one that is to join at %s, where that says that it is (%s): open that port to the other nodes, or name the address by which they reach it with --advertise",
		s.self.Name, m.PeerAddress(), told(err)))
}

// ErrRefused is the error of a node that the others will not have.
var ErrRefused = errors.New("the node is refused")

// Join enters a node that has no place on the ring yet, by any of the nodes at addresses, and returns what those of the file
// system know. It tries until ctx ends. It may be called before Start. One without a pool is asked meanwhile whether it is there, so its port has to be served.
func (m *Circle) Join(ctx context.Context, by []string, self dfs.Member, pool string) (*wire.RingFileSystem, *dfs.View, uint32, error) {
	m.joining.Store(&self.Name)
	self.Version = m.Version
	var last error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		for _, address := range by {
			try, cancel := context.WithTimeout(ctx, m.Wait+beatTime)
			a, err := m.client(target{address: address}).Join(try, &wire.RingJoinRequest{Member: toWire(self), Pool: pool})
			cancel()
			if err == nil {
				v, err := names.DecodeView(a.View)
				return a.FileSystem, v, a.Number, err
			}
			if old := asOld(err); old != nil {
				return nil, nil, 0, fmt.Errorf("%w by the node at %s: %w", ErrRefused, address, old)
			}
			// What comes from the other end is told as it is; how it came concerns nobody.
			was := last
			if last = fmt.Errorf("%s: %s", address, told(err)); was == nil || was.Error() != last.Error() {
				m.Log.Warn("joining is tried again", "err", last)
			}
			switch code := connect.CodeOf(err); {
			case errors.Is(err, peer.ErrStranger):
				return nil, nil, 0, fmt.Errorf("%w by the node at %s: %w", ErrRefused, address, peer.ErrStranger)
			case code == connect.CodeFailedPrecondition, code == connect.CodeInvalidArgument:
				return nil, nil, 0, fmt.Errorf("%w by the node at %w", ErrRefused, last)
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, 0, fmt.Errorf("join: %w, and before: %w", ctx.Err(), last)
		case <-time.After(pause):
		}
	}
}

// told is what another node has said, or why it has said nothing.
func told(err error) string {
	if e, ok := errors.AsType[*connect.Error](err); ok {
		return e.Message()
	}
	return err.Error()
}
