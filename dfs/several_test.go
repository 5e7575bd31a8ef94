package dfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/dfs/names"
	"headrace/internal/accept"
	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/quorum"
	"headrace/quorum/link"
	"headrace/ring"
)

// site is a node with its connections to others, as a program has it.
type site struct {
	dir    string
	node   *Node
	link   *link.Link
	served chan error
}

// sites are nodes of one file system, in one process, that tell each other of the ring.
type sites struct {
	t     testing.TB
	mu    sync.Mutex
	all   map[string]*site // by name
	alive map[string]*site
	stop  context.CancelFunc
	told  sync.WaitGroup
}

func newSites(t testing.TB) *sites {
	s := &sites{t: t, all: map[string]*site{}, alive: map[string]*site{}}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.told.Go(func() { // the beats that peers send each other
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			for _, a := range s.living() {
				for _, b := range s.living() {
					a.node.Learn(must[*View](t)(reread(b.node.View())))
				}
			}
		}
	})
	t.Cleanup(func() {
		stop()
		s.told.Wait()
		for name := range s.alive {
			s.end(name)
		}
	})
	return s
}

// reread takes a view the way that it takes between nodes.
func reread(v *View) (*View, error) { return names.DecodeView(v.Encode()) }

func (s *sites) living() (all []*site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.alive {
		all = append(all, a)
	}
	return all
}

// start opens the node of a directory, which founds a file system or was invited to one, or comes back.
func (s *sites) start(dir string, admit func(Member) *Invitation) *site {
	s.t.Helper()
	listener := must[net.Listener](s.t)(net.Listen("tcp", "127.0.0.1:0"))
	a := &site{dir: dir, served: make(chan error, 1)}
	c := Config{Dir: dir, Owner: "root", Log: testLog(s.t), Upkeep: 50 * time.Millisecond, ScrubRate: -1,
		Self: Member{Host: "127.0.0.1", Peer: uint16(listener.Addr().(*net.TCPAddr).Port)}}
	if admit != nil {
		self := c.Self
		who := must[Identity](s.t)(Prepare(c))
		self.Name, self.Storage = who.Node, who.Storage
		if i := admit(self); who.Pool == "" {
			c.Invitation = i
		}
	}
	var node atomic.Pointer[Node]
	a.link = link.New(link.Config{
		Dial: func(ctx context.Context, number uint32) (net.Conn, error) {
			n := node.Load()
			if n == nil {
				return nil, errors.New("the node is not open yet")
			}
			m, ok := n.View().Number(number)
			if !ok {
				return nil, fmt.Errorf("nobody has number %d", number)
			}
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", m.Host, m.Peer))
			if err == nil {
				err = link.Greet(ctx, c, m.Name)
			}
			return c, err
		},
		Deliver: func(m quorum.Message) {
			if n := node.Load(); n != nil {
				n.Deliver(m)
			}
		},
	})
	c.Send = a.link.Send
	a.node = must[*Node](s.t)(Open(c))
	node.Store(a.node)
	go func() { a.served <- a.link.Serve(&accept.Listener{Listener: listener, Name: "peers"}) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[a.node.Identity.Node], s.alive[a.node.Identity.Node] = a, a
	return a
}

// end ends a node: first nobody hears of it any more, as when it is killed.
func (s *sites) end(name string) {
	s.mu.Lock()
	a := s.alive[name]
	delete(s.alive, name)
	s.mu.Unlock()
	a.link.Close()
	if err := errors.Join(<-a.served, a.node.Close()); err != nil {
		s.t.Error(err)
	}
}

// leader asks those who live until f has succeeded at the one that leads. What is uncertain is asked again, and what was not done because a disk took long.
func (s *sites) leader(f func(*Node) error) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(2 * time.Minute); ; {
		for _, a := range s.living() {
			err := f(a.node)
			_, other := errors.AsType[*NotLeader](err)
			if a.node.Failure() != nil { // its process ends, and who has asked it asks the next one
				other = true
			}
			if !other && !errors.Is(err, ErrUncertain) && !errors.Is(err, quorum.ErrBusy) && !errors.Is(err, ErrClosed) && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			if time.Now().After(end) {
				return fmt.Errorf("nobody answers: %w", err)
			}
		}
		<-look.C // who asks leaves the processors to those who are to answer
	}
}

// admit has a member admitted by whoever leads.
func (s *sites) admit(m Member) (i *Invitation) {
	s.t.Helper()
	err := s.leader(func(n *Node) error {
		v, number, err := n.Admit(context.Background(), m)
		if err == nil && number == 0 {
			err = errors.New("no number")
		}
		i = n.Identity.Invitation(v)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return i
}

func (s *sites) change(e ring.Event) {
	s.t.Helper()
	uncertain := false
	if err := s.leader(func(n *Node) error {
		_, err := n.ChangeRing(context.Background(), e)
		if _, removes := e.(ring.Remove); removes && uncertain && errors.Is(err, ring.ErrUnknown) { // it was done when that was asked first
			return nil
		}
		uncertain = uncertain || errors.Is(err, ErrUncertain)
		return err
	}); err != nil {
		s.t.Fatalf("%+v: %v", e, err)
	}
}

// filled says for all nodes that they have what they are to have: nothing is stored here.
func (s *sites) filled() {
	s.t.Helper()
	for {
		var v *View
		if err := s.leader(func(n *Node) error { v = n.View(); return n.Query(n.root(), func(meta.Query) error { return nil }) }); err != nil {
			s.t.Fatal(err)
		}
		to := map[string][]uint16{}
		for _, m := range v.Table.Moves() {
			to[m.Node] = append(to[m.Node], m.Segment)
		}
		if len(to) == 0 {
			return
		}
		for name, all := range to {
			s.change(ring.Confirm{Node: name, Epoch: v.Table.Epoch(), Segments: all})
		}
	}
}

// seated waits until these nodes, and no others, vote, as all of them know.
func (s *sites) seated(want ...string) {
	s.t.Helper()
	want = slices.Sorted(slices.Values(want)) // and not what the caller has: it knows its nodes by their places
	testkit.Await(s.t, fmt.Sprintf("%v to have the seats", want), func() bool {
		for _, a := range s.living() {
			v := a.node.View()
			var have []string
			for name := range v.Seats {
				have = append(have, name)
			}
			if slices.Sort(have); !slices.Equal(have, want) || v.Leader == "" {
				return false
			}
			if voters := a.node.Voters(); slices.Contains(want, a.node.Identity.Node) && len(voters) != len(want) {
				return false
			}
		}
		return true
	}, s.known)
}

// known is what those who live know of the ring, for a test that fails.
func (s *sites) known() string {
	text := ""
	for _, a := range s.living() {
		v := a.node.View()
		raft, _ := a.node.Raft()
		text += fmt.Sprintf("\n%s: leader %q term %d epoch %d index %d nodes %+v seats %v voters %v, raft %+v, failed: %v",
			a.node.Identity.Node, v.Leader, v.Term, v.Table.Epoch(), v.Index, v.Table.Nodes(), v.Seats, a.node.Voters(), raft, a.node.Failure())
	}
	return text
}

// load has clients make directories and rename them, each step asked for until it is answered, and returns what stops
// them and checks that all that was acknowledged is there.
func (s *sites) load(prefix string) (finish func() int) {
	const clients = 6
	var stop atomic.Bool
	var all sync.WaitGroup
	var done [clients]int
	for c := range clients {
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				for step, op := range []meta.Op{&meta.Mkdirs{Path: fmt.Sprintf("/%s%d-a%d", prefix, c, i)},
					&meta.Rename{From: fmt.Sprintf("/%s%d-a%d", prefix, c, i), To: fmt.Sprintf("/%s%d-b%d", prefix, c, i), Old: true}} {
					err := s.leader(func(n *Node) error {
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						defer cancel()
						r, err := n.Propose(ctx, meta.Command{Client: fmt.Sprintf("%s%d", prefix, c), Call: int64(2*i + step), Caller: n.root(), Op: op})
						if f, ok := r.(*meta.Flag); err == nil && (!ok || !bool(*f)) {
							err = fmt.Errorf("%T says %v", op, r)
						}
						return err
					})
					if err != nil {
						s.t.Errorf("client %d, call %d: %v", c, i, err)
						return
					}
				}
				done[c] = i + 1
			}
		})
	}
	return func() (sum int) {
		s.t.Helper()
		stop.Store(true)
		all.Wait()
		for c, n := range done {
			for i := range n {
				var st *meta.Status
				if err := s.leader(func(n *Node) error {
					return n.Query(n.root(), func(q meta.Query) (err error) {
						st, err = q.Stat(fmt.Sprintf("/%s%d-b%d", prefix, c, i), true)
						return err
					})
				}); err != nil || st == nil {
					s.t.Fatalf("client %d: what was acknowledged in step %d is not there: %v", c, i, err)
				}
			}
			sum += n
		}
		return sum
	}
}

// TestSeveralNodes: three nodes agree; the one that leads dies while clients ask, and comes back; a fourth one joins and
// takes the seat of one that leaves. Nothing that was acknowledged is lost, and calls that are repeated are done once.
func TestSeveralNodes(t *testing.T) {
	dirs := t.TempDir()
	s := newSites(t)
	first := s.start(filepath.Join(dirs, "1"), nil)
	finish := s.load("w")
	var three []string
	for i := range 2 {
		s.start(filepath.Join(dirs, fmt.Sprint(i+2)), s.admit)
	}
	for name := range s.all {
		three = append(three, name)
	}
	s.seated(three...)
	t.Logf("%d calls while two nodes joined", finish())

	for range 2 {
		finish = s.load(fmt.Sprint("k", first.node.View().Term))
		leader := ""
		testkit.Await(t, "a leader", func() bool {
			for _, a := range s.living() {
				if a.node.Leads() {
					leader = a.node.Identity.Node
				}
			}
			return leader != ""
		})
		dir := s.all[leader].dir
		began := time.Now()
		s.end(leader)
		t.Logf("its end took %v", time.Since(began).Round(time.Millisecond))
		if err := s.leader(func(n *Node) error { return n.Query(n.root(), func(meta.Query) error { return nil }) }); err != nil {
			t.Fatal(err)
		}
		t.Logf("without the one that led, an answer came after %v", time.Since(began).Round(time.Millisecond))
		back := s.start(dir, s.admit)
		if back.node.Identity.Node != leader {
			t.Fatalf("%s has come back as %s", leader, back.node.Identity.Node)
		}
		s.seated(three...)
		t.Logf("%d calls", finish())
	}

	finish = s.load("m")
	fourth := s.start(filepath.Join(dirs, "4"), s.admit)
	s.filled()
	leaves := three[0]
	s.change(ring.Drain{Node: leaves})
	s.filled()
	stay := append(slices.Clone(three[1:]), fourth.node.Identity.Node)
	s.seated(stay...)
	s.change(ring.Remove{Node: leaves})
	s.end(leaves)
	s.end(stay[0]) // two of three are left, and the new one is one of them
	if err := s.leader(func(n *Node) error { return n.Query(n.root(), func(meta.Query) error { return nil }) }); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls while one joined and one left", finish())
	testkit.Await(t, "the one that has left to be forgotten", func() bool { // a follower hears of it a little later
		v := fourth.node.View()
		return v.Members[leaves].Name == "" && len(v.Table.Nodes()) == 3
	}, s.known)
}

// TestLeaderIsOut: one that leads and is out by the ring, as when it has no disk left, has another one lead and vote in its place, though it is there.
func TestLeaderIsOut(t *testing.T) {
	dirs := t.TempDir()
	s := newSites(t)
	s.start(filepath.Join(dirs, "1"), nil)
	for i := range 3 {
		s.start(filepath.Join(dirs, fmt.Sprint(i+2)), s.admit)
	}
	s.filled()
	var first string
	if err := s.leader(func(n *Node) error {
		first = n.Identity.Node
		return n.Query(n.root(), func(meta.Query) error { return nil })
	}); err != nil {
		t.Fatal(err)
	}
	s.change(ring.Down{Node: first})
	s.change(ring.Out{Node: first})
	var others []string
	for name := range s.all {
		if name != first {
			others = append(others, name)
		}
	}
	s.seated(others...)
	if err := s.leader(func(n *Node) error {
		err := n.Query(n.root(), func(meta.Query) error { return nil })
		if err == nil && n.Identity.Node == first {
			t.Error("it answers still")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
