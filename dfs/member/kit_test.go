package member

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/dfs/peer"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/internal/testkit"
	"headrace/quorum"
	"headrace/ring"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

const token = "a token that is long enough"

// place is a node whose names are led where a test says.
type place struct {
	t    testing.TB
	name string
	port *peer.Port
	*Circle
	served func(*ipc.Call) (proto.Message, error)
	web    func(w http.ResponseWriter, r *http.Request, user string)
	end    func()
	has    []uint16        // what a node has that comes back
	slow   <-chan struct{} // if set, a node that comes back says so only when it is closed

	mu      sync.Mutex
	view    *dfs.View
	changed chan struct{}
	leading bool
	over    uint64 // the term in which nobody leads any more
	got     []quorum.Message
	old     error // that this node is too old
	said    spoken
	admits  func(dfs.Member) // what comes before a member is admitted
	bare    bool             // it has no disk
}

// spoken is what a node has logged.
type spoken struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *spoken) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *spoken) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.text.String() }

// held is what a node has of blocks: nothing.
type held struct {
	wireconnect.BlockServiceHandler
}

func (held) Held(context.Context, *wire.HeldRequest) (*wire.HeldResponse, error) {
	return &wire.HeldResponse{}, nil
}

// quick is patient enough for a machine that does much else. The judge notices that it has stood still itself, as on one, before others are down for it.
var quick = Config{Beat: 30 * time.Millisecond, Wait: 20 * time.Second,
	Patience: &ring.Patience{Suspect: 2 * time.Second, Down: 3 * time.Second, Out: time.Hour, Stall: 2 * time.Second, MostDown: 50, MostOut: 40}}

// sit makes a node, which has begun to take part as its name says. Its view has only itself.
func sit(t testing.TB, name string, c Config) *place {
	t.Helper()
	return sitAt(t, name, "BP-1", "127.0.0.1:0", c)
}

// sitAt makes a node of a file system at an address. What it says of itself may be changed.
func sitAt(t testing.TB, name, pool, address string, c Config, says ...func(self *dfs.Member)) *place {
	t.Helper()
	p := &place{t: t, name: name, changed: make(chan struct{})}
	secret, err := peer.NewSecret(token)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &p.said), &slog.HandlerOptions{})).With("node", name)
	p.port = peer.New(secret, peer.Limits{}, log)
	c.Port, c.Log = p.port, log
	p.Circle = New(c)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	self := dfs.Member{Name: name, Storage: "DS-" + name, Host: "127.0.0.1", RPC: 1, Data: 2, Peer: uint16(l.Addr().(*net.TCPAddr).Port)}
	for _, change := range says {
		change(&self)
	}
	table, err := ring.New(64, 3, ring.Node{Name: name, Weight: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.view = &dfs.View{Version: p.Version, Table: table, Index: 1}
	founds := self
	founds.Number, founds.Version = 1, p.Version
	p.view.Members = map[string]dfs.Member{name: p.view.As(founds)}
	service := ipc.NewService(pb.File_ClientNamenodeProtocol_proto.Services().Get(0), func(_ context.Context, c *ipc.Call, _ proto.Message) (proto.Message, error) {
		if !p.Leads() {
			return nil, &dfs.NotLeader{}
		}
		return p.served(c)
	})
	p.Start(Taking{Node: p, Self: self, System: dfs.Identity{Pool: pool, Owner: "root", Group: "supergroup", Key: []byte("key")},
		Led: map[string]*ipc.Service{protocol: service}, Blocks: held{}, Web: func(w http.ResponseWriter, r *http.Request, user string) { p.web(w, r, user) },
		Return: func(ctx context.Context, node string) (*dfs.View, error) {
			p.mu.Lock()
			slow := p.slow
			p.mu.Unlock()
			if slow != nil {
				<-slow
			}
			return p.ChangeRing(ctx, ring.Back{Node: node, Has: p.has})
		}})
	ended := make(chan error, 1)
	go func() { ended <- p.port.Serve(l) }()
	testkit.Await(t, "the port to be open", func() bool { return p.port.Addr() != nil })
	p.end = sync.OnceFunc(func() {
		p.Close()
		p.port.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.end)
	return p
}

const protocol = "org.apache.hadoop.hdfs.protocol.ClientProtocol"

func (p *place) change(f func(v *dfs.View)) *dfs.View {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := *p.view
	v.Members = maps.Clone(v.Members)
	f(&v)
	close(p.changed)
	p.view, p.changed = &v, make(chan struct{})
	return &v
}

func (p *place) View() *dfs.View { p.mu.Lock(); defer p.mu.Unlock(); return p.view }

func (p *place) Changed() <-chan struct{} { p.mu.Lock(); defer p.mu.Unlock(); return p.changed }

func (p *place) Leads() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.leading }

func (p *place) Room() dfs.Room {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bare {
		return dfs.Room{}
	}
	return dfs.Room{Capacity: 100, Blocks: 7}
}

func (p *place) Outdated(err error) { p.mu.Lock(); defer p.mu.Unlock(); p.old = err }

func (p *place) outdated() error { p.mu.Lock(); defer p.mu.Unlock(); return p.old }

func (p *place) Deliver(q quorum.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, q)
}

func (p *place) Learn(other *dfs.View) {
	p.mu.Lock()
	next := p.view.Merge(other)
	same := next == p.view || next.Leader != p.view.Leader && next.Term <= p.over
	p.mu.Unlock()
	if !same && !p.Leads() {
		p.change(func(v *dfs.View) { *v = *next })
	}
}

func (p *place) Hear(other *dfs.View) {
	p.mu.Lock()
	p.over = 0
	p.mu.Unlock()
	p.Learn(other)
}

func (p *place) Silent(of *dfs.View) {
	p.mu.Lock()
	p.over = of.Term
	p.mu.Unlock()
	p.change(func(v *dfs.View) { v.Leader = "" })
}

// lead has the node lead, in a term, with what another one knew.
func (p *place) leadFrom(from *place, term uint64) {
	if from != nil {
		from.mu.Lock()
		from.leading = false
		from.mu.Unlock()
		p.Learn(from.View())
	}
	p.change(func(v *dfs.View) { v.Leader, v.Term, p.leading = p.name, term, true })
}

func (p *place) ChangeRing(_ context.Context, e ring.Event) (*dfs.View, error) {
	if !p.Leads() {
		return nil, &dfs.NotLeader{}
	}
	t, _, err := p.View().Table.Apply(e)
	if err != nil {
		return nil, err
	}
	return p.change(func(v *dfs.View) { v.Table = t; v.Index++ }), nil
}

func (p *place) Admit(ctx context.Context, m dfs.Member) (*dfs.View, uint32, error) {
	if !p.Leads() {
		return nil, 0, &dfs.NotLeader{}
	}
	p.mu.Lock()
	admits := p.admits
	p.mu.Unlock()
	if admits != nil {
		admits(m)
	}
	was := m.Number
	if m.Number = p.View().Members[m.Name].Number; was != 0 && was != m.Number {
		return nil, 0, ring.ErrUnknown
	} else if m.Number == 0 {
		m.Number = uint32(len(p.View().Members) + 1)
	}
	p.change(func(v *dfs.View) { v.Members[m.Name] = v.As(m); v.Index++ })
	if _, there := p.View().Table.Node(m.Name); !there {
		if _, err := p.ChangeRing(ctx, ring.Join{Node: ring.Node{Name: m.Name, Weight: 1}}); err != nil {
			return nil, 0, err
		}
	}
	return p.View(), m.Number, nil
}

func (p *place) address() string { return p.port.Addr().String() }

func (p *place) state(of string) ring.State {
	n, _ := p.View().Table.Node(of)
	return n.State
}

// circle makes nodes a, b, c ... that know each other, of which the first leads.
func circle(t testing.TB, n int, c Config) []*place {
	t.Helper()
	var all []*place
	for i := range n {
		p := sit(t, string(rune('a'+i)), c)
		all = append(all, p)
		if i == 0 {
			p.leadFrom(nil, 1)
			continue
		}
		_, v, number, err := p.join(t, all[0].address())
		if err != nil || number == 0 {
			t.Fatal(err)
		}
		p.Learn(v)
	}
	return all
}

// join joins by an address.
func (p *place) join(t testing.TB, by string) (any, *dfs.View, uint32, error) {
	return p.Join(t.Context(), []string{by}, p.self, "")
}

func call(client byte, id int32, user string) *ipc.Call {
	q, _ := proto.Marshal(&pb.GetFileInfoRequestProto{Src: proto.String(fmt.Sprint("/", user))})
	return &ipc.Call{Protocol: protocol, Version: 1, Method: "getFileInfo", Request: q, Client: ipc.ClientID{client}, ID: id, User: ipc.User{Name: user}}
}
