package member

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/quorum"
	"headrace/wire"
)

const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// classStandby is the exception that has clients of several name nodes ask another one.
const classStandby = "org.apache.hadoop.ipc.StandbyException"

// errNobody: it was waited for long enough.
var errNobody = errors.New("nobody leads the names of the file system just now")

// lead has something done by the node that leads: by here if that is this one, else by there. Each says whether it may be tried again
// when it has failed. It waits for somebody to lead, at most Config.Wait.
func (m *Circle) lead(ctx context.Context, here func() (again bool, err error), there func(dfs.Member) (again bool, err error)) error {
	began, last := time.Now(), errNobody
	var end <-chan time.Time // once there is something to wait for
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		changed, v := m.node.Changed(), m.node.View()
		leader, known := v.Members[v.Leader]
		switch {
		case m.node.Leads():
			again, err := here()
			if !again {
				return err
			}
			last = fmt.Errorf("%w: %w", errNobody, err)
		case known:
			again, err := there(leader)
			if !again {
				return err
			}
			last = fmt.Errorf("%w: %w", errNobody, err)
		}
		m.wake()
		if end == nil {
			end = time.After(m.Wait - time.Since(began))
		}
		select {
		case <-changed:
			pause = firstPause / 2
		case <-time.After(pause):
		case <-end:
			return last
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const (
	longAnswer = 256 << 10 // bytes, encoded: longer ones wait for each other
	decoded    = 4         // times as many bytes an answer takes while it is encoded anew for the client
)

// Pass has the node that leads answer a call of a client of this node; see gateway.Pass.
func (m *Circle) Pass(ctx context.Context, c *ipc.Call, here *ipc.Service) (a proto.Message, err error) {
	// Of a call of which nobody knows whether it was carried out, only its number makes sure that it is once.
	numbered := c.Client != (ipc.ClientID{})
	err = m.lead(ctx, func() (bool, error) {
		var err error
		a, err = here.Serve(ctx, c)
		return undone(err) || numbered && errors.Is(err, dfs.ErrUncertain), err
	}, func(leader dfs.Member) (bool, error) {
		ctx := ctx
		if numbered {
			var stop func()
			ctx, stop = while(ctx, m.node, leader.Name)
			defer stop()
		}
		w, err := m.client(targetOf(leader)).Pass(ctx, passed(c))
		switch {
		case err != nil:
			return numbered || unheard(err) || refused(err), err
		case w.GetException() != nil:
			e := w.GetException()
			return false, &ipc.Exception{Class: e.Class, Message: e.Message, Code: pb.RpcResponseHeaderProto_RpcErrorCodeProto(e.Code)}
		case w.Outcome == nil, w.GetNotLeading() != nil:
			return true, &dfs.NotLeader{Leader: w.GetNotLeading().GetLeader()}
		}
		if n := len(w.GetAnswer()); n > longAnswer {
			if err := c.Reserve(ctx, decoded*int64(n)); err != nil {
				return false, err
			}
		}
		a, err = here.Answer(c.Method, w.GetAnswer())
		return false, err
	})
	if errors.Is(err, errNobody) || errors.As(err, new(*connect.Error)) && unheard(err) {
		return nil, ipc.Throw(classStandby, "%s", err)
	}
	return a, err
}

// while returns a context that ends when another node has led for some time, or nobody: the one that is asked may hang, and never answer.
func while(ctx context.Context, n Node, leader string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		var since time.Time // nobody has taken it for the one that leads
		for {
			var late <-chan time.Time
			changed := n.Changed()
			if n.View().Leader == leader {
				since = time.Time{}
			} else {
				if since.IsZero() {
					since = time.Now()
				}
				late = time.After(beatTime - time.Since(since))
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-late:
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}

// undone reports whether an error says that nothing was done, since this node does not lead, or has too much to do.
func undone(err error) bool {
	return errors.As(err, new(*dfs.NotLeader)) || errors.Is(err, quorum.ErrBusy)
}

// passed is a call as another node is told of it.
func passed(c *ipc.Call) *wire.RingPassRequest {
	return &wire.RingPassRequest{Protocol: c.Protocol, Version: c.Version, Method: c.Method, Request: c.Request, Client: c.Client[:], Id: c.ID, Retry: c.Retry,
		User: c.User.Name, Remote: c.Remote.String(), Context: c.Context}
}

// Pass answers a call that another node has passed on, if this one leads.
func (s service) Pass(ctx context.Context, q *wire.RingPassRequest) (*wire.RingPassResponse, error) {
	here := s.led[q.Protocol]
	if here == nil || q.User == "" || len(q.Client) != len(ipc.ClientID{}) {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("no call that is passed on"))
	}
	c := &ipc.Call{Protocol: q.Protocol, Version: q.Version, Method: q.Method, Request: q.Request, ID: q.Id, Retry: q.Retry,
		User: ipc.User{Name: q.User}, Context: q.Context}
	copy(c.Client[:], q.Client)
	c.Remote, _ = netip.ParseAddrPort(q.Remote) // that of a client without an address says nothing
	notLeading := func(leader string) (*wire.RingPassResponse, error) {
		return &wire.RingPassResponse{Outcome: &wire.RingPassResponse_NotLeading{NotLeading: &wire.RingNotLeading{Leader: leader}}}, nil
	}
	if !s.node.Leads() {
		return notLeading(s.node.View().Leader)
	}
	if here.Enter != nil {
		defer here.Enter(c)()
	}
	a, err := s.answer(ctx, here, c)
	if undone(err) {
		return notLeading(s.node.View().Leader)
	}
	if err == nil {
		var b []byte
		if b, err = proto.Marshal(a); err == nil {
			return &wire.RingPassResponse{Outcome: &wire.RingPassResponse_Answer{Answer: b}}, nil
		}
	}
	if errors.Is(err, dfs.ErrUncertain) || errors.Is(err, dfs.ErrClosed) || ctx.Err() != nil {
		return nil, connect.NewError(connect.CodeAborted, err)
	}
	e := ipc.ExceptionOf(err)
	return &wire.RingPassResponse{Outcome: &wire.RingPassResponse_Exception{Exception: &wire.RingException{Class: e.Class, Message: e.Message, Code: int32(e.Code)}}}, nil
}

// answer has a call answered. A panic is an error of the call, as where clients are served.
func (m *Circle) answer(ctx context.Context, here *ipc.Service, c *ipc.Call) (a proto.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.Log.Error("a call that was passed on has panicked", "method", c.Method, "panic", p, "stack", string(debug.Stack()))
			err = ipc.Throw("java.lang.RuntimeException", "internal error in %s", c.Method)
		}
	}()
	return here.Serve(ctx, c)
}
