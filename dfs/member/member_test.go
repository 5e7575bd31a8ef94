package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/dfs"
	"headrace/dfs/peer"
	"headrace/internal/testkit"
	"headrace/quorum"
	"headrace/ring"
	"headrace/wire"
)

// TestSilence: a node that is silent is down after its time, and back with what it had when it is heard again, from another port.
func TestSilence(t *testing.T) {
	all := circle(t, 4, quick)
	lead, lost := all[0], all[2]
	confirm := ring.Confirm{Node: "c", Epoch: lead.View().Table.Epoch(), Segments: []uint16{5, 6}}
	if v, err := lead.ChangeRing(t.Context(), confirm); err != nil || !slices.Contains(v.Table.Holders(5), "c") || !slices.Contains(v.Table.Holders(6), "c") {
		t.Fatal(err)
	}
	lead.has = []uint16{5}
	for _, p := range all {
		testkit.Await(t, "all to know all", func() bool { return len(p.View().Table.Nodes()) == 4 && p.View().Leader == "a" })
	}
	testkit.Await(t, "a report", func() bool { r, ok := lead.Circle.Room("c"); return ok && r.Blocks == 7 })
	lost.end()
	testkit.Await(t, "the lost one to be down", func() bool { return lead.state("c") == ring.IsDown })
	for _, name := range []string{"a", "b", "d"} {
		if lead.state(name) != ring.IsUp {
			t.Errorf("%s is %v", name, lead.state(name))
		}
	}
	testkit.Await(t, "others to know", func() bool { return all[1].state("c") == ring.IsDown })

	again := sit(t, "c", quick)
	if again.self.Peer == lost.self.Peer {
		t.Fatal("it has the same port")
	}
	again.Learn(lost.View()) // from its disk
	testkit.Await(t, "it to be back", func() bool { return lead.state("c") == ring.IsUp })
	testkit.Await(t, "others to know where", func() bool {
		return all[3].View().Members["c"].Peer == again.self.Peer && all[3].state("c") == ring.IsUp
	})
	if v := lead.View(); slices.Contains(v.Table.Holders(6), "c") || !slices.Contains(v.Table.Holders(5), "c") {
		t.Errorf("%v, %v", v.Table.Holders(5), v.Table.Holders(6))
	}
}

// TestSlowReturn: a node that takes long to say what it has left keeps nobody else from being judged.
func TestSlowReturn(t *testing.T) {
	all := circle(t, 4, quick)
	lead := all[0]
	for _, p := range all {
		testkit.Await(t, "all to know all", func() bool { return len(p.View().Table.Nodes()) == 4 })
	}
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	defer release()
	lead.mu.Lock()
	lead.slow = answer
	lead.mu.Unlock()
	all[2].end()
	testkit.Await(t, "the lost one to be down", func() bool { return lead.state("c") == ring.IsDown })
	again := sit(t, "c", quick)
	again.Learn(all[2].View())
	testkit.Await(t, "it to be asked", func() bool {
		lead.Circle.mu.Lock()
		defer lead.Circle.mu.Unlock()
		return lead.returning["c"]
	})
	all[3].end()
	testkit.Await(t, "another one to be down meanwhile", func() bool { return lead.state("d") == ring.IsDown })
	if s := lead.state("c"); s != ring.IsDown {
		t.Errorf("it is %v, and has not said what it has", s)
	}
	release()
	testkit.Await(t, "it to be back", func() bool { return lead.state("c") == ring.IsUp })
}

// TestJudgeMoves: a new leader hears who is silent by itself, and takes nobody for dead who was only silent to the old one.
func TestJudgeMoves(t *testing.T) {
	all := circle(t, 4, quick)
	all[1].leadFrom(all[0], 2)
	all[0].end()
	testkit.Await(t, "the old leader to be down", func() bool { return all[1].state("a") == ring.IsDown })
	for _, name := range []string{"b", "c", "d"} {
		if s := all[1].state(name); s != ring.IsUp {
			t.Errorf("%s is %v", name, s)
		}
	}
}

// TestNobodyLeadsAnyMore: when whoever led is gone and nobody follows, all others come to know that nobody leads, and do not tell each
// other that it still does; when it is back they know.
func TestNobodyLeadsAnyMore(t *testing.T) {
	all := circle(t, 4, quick)
	for _, p := range all {
		testkit.Await(t, "all to know all", func() bool { return len(p.View().Table.Nodes()) == 4 && p.View().Leader == "a" })
	}
	all[0].end()
	testkit.Await(t, "nobody to lead", func() bool {
		return !slices.ContainsFunc(all[1:], func(p *place) bool { return p.View().Leader != "" })
	})
	again := sitAt(t, "a", "BP-1", all[0].address(), quick)
	again.Learn(all[0].View())
	again.leadFrom(nil, 1)
	for _, p := range all[1:] {
		testkit.Await(t, "it to lead again", func() bool { return p.View().Leader == "a" })
	}
}

// TestAccused: neighbours that cannot reach a node say so.
func TestAccused(t *testing.T) {
	all := circle(t, 3, quick)
	for _, p := range all {
		testkit.Await(t, "all to know all", func() bool { return len(p.View().Table.Nodes()) == 3 })
	}
	all[2].end()
	for _, p := range all[:2] {
		testkit.Await(t, "an accusation", func() bool { return slices.Equal(p.unreachable(), []string{"c"}) })
	}
	testkit.Await(t, "the leader to hear it", func() bool {
		all[0].Circle.mu.Lock()
		defer all[0].Circle.mu.Unlock()
		return slices.Equal(all[0].beats["b"].Unreachable, []string{"c"})
	})
}

// TestHeardAndNotReached: a node that beats, and that nobody reaches, counts as silent, and is back when it is reached.
func TestHeardAndNotReached(t *testing.T) {
	all := circle(t, 4, quick)
	lead := all[0]
	door, err := net.Listen("tcp", "127.0.0.1:0") // whoever comes waits
	if err != nil {
		t.Fatal(err)
	}
	var going sync.WaitGroup
	t.Cleanup(func() { door.Close(); going.Wait() })
	cut := sitAt(t, "x", "BP-1", "127.0.0.1:0", quick, func(self *dfs.Member) { self.Peer = uint16(door.Addr().(*net.TCPAddr).Port) })
	t.Cleanup(cut.end)
	v, _, err := lead.Admit(t.Context(), cut.self) // the door was open when it joined
	if err != nil {
		t.Fatal(err)
	}
	cut.Learn(v)
	testkit.Await(t, "it to be heard", func() bool { _, ok := lead.Heard("x"); return ok })
	testkit.Await(t, "it to be down", func() bool { return lead.state("x") == ring.IsDown })
	for _, p := range all {
		if s := lead.state(p.name); s != ring.IsUp {
			t.Errorf("%s is %v", p.name, s)
		}
	}
	testkit.Await(t, "it to be heard still", func() bool { silent, ok := lead.Heard("x"); return ok && silent < time.Second })
	if s := lead.state("x"); s != ring.IsDown {
		t.Errorf("it is %v, and nobody reaches it", s)
	}
	if !strings.Contains(lead.said.String(), "is heard and cannot be reached") {
		t.Error("nothing is said of it")
	}
	going.Go(func() { // the door opens
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", cut.address())
			if err != nil {
				c.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{c, to}, {to, c}} {
				going.Go(func() {
					io.Copy(way[0], way[1])
					way[0].Close()
				})
			}
		}
	})
	testkit.Await(t, "it to be back", func() bool { return lead.state("x") == ring.IsUp })
}

// TestWithoutADisk: a node whose last disk has failed counts as silent, also the one that leads, where others can have its copies; and is back with its disk.
func TestWithoutADisk(t *testing.T) {
	all := circle(t, 4, quick)
	lead := all[0]
	for _, p := range []*place{all[2], lead} {
		lose := func(is bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.bare = is
		}
		lose(true)
		testkit.Await(t, "it to be down", func() bool { return lead.state(p.name) == ring.IsDown })
		for _, other := range all {
			if s := lead.state(other.name); other != p && s != ring.IsUp {
				t.Errorf("%s is %v", other.name, s)
			}
		}
		if silent, _ := lead.Heard(p.name); p != lead && silent > quick.Patience.Suspect {
			t.Errorf("it was not heard for %v", silent)
		}
		out, err := lead.ChangeRing(t.Context(), ring.Out{Node: p.name})
		if err != nil {
			t.Fatal(err)
		}
		if bare := bare(out, map[string]dfs.Room{p.name: {}}); !slices.Equal(bare, []string{p.name}) { // it stays so
			t.Errorf("%v have no disk", bare)
		}
		lose(false)
		testkit.Await(t, "it to be back", func() bool { return lead.state(p.name) == ring.IsUp })
	}
	if !strings.Contains(lead.said.String(), "has no disk in use") {
		t.Error("nothing is said of it")
	}
	fewer, err := ring.New(64, 3, ring.Node{Name: "x", Weight: 1}, ring.Node{Name: "y", Weight: 1}, ring.Node{Name: "z", Weight: 1})
	if err != nil {
		t.Fatal(err)
	}
	if bare := bare(&dfs.View{Table: fewer}, map[string]dfs.Room{"x": {}}); len(bare) > 0 {
		t.Errorf("%v are of three, and there is nobody else", bare)
	}
}

// TestAnotherRack: a node that is started with another rack stands in that one from then on, also the one that leads; started without one it stands where it was.
func TestAnotherRack(t *testing.T) {
	all := circle(t, 3, quick)
	lead, last := all[0], all[1]
	in := func(rack string) func(*dfs.Member) { return func(self *dfs.Member) { self.Rack = rack } }
	for _, c := range []struct{ says, stands string }{{"r1", "r1"}, {"/dc/r2", "/dc/r2"}, {"", "/dc/r2"}} {
		last.end()
		last = sitAt(t, "b", "BP-1", "127.0.0.1:0", quick, in(c.says))
		last.Learn(lead.View())
		testkit.Await(t, fmt.Sprintf("a beat that says rack %q", c.says), func() bool {
			v := lead.View()
			n, _ := v.Table.Node("b")
			m := v.Members["b"]
			return m.Peer == last.self.Peer && m.Rack == c.stands && n.Rack == c.stands
		}, func() string { return fmt.Sprintf("%+v", lead.View()) })
	}
	if said := lead.said.String(); !strings.Contains(said, `stands in rack \"/dc/r2\", and was in \"r1\"`) {
		t.Errorf("nothing is said of it: %s", said)
	}
	alone := sitAt(t, "x", "BP-2", "127.0.0.1:0", quick, in("r3"))
	alone.leadFrom(nil, 1)
	testkit.Await(t, "the one that leads to stand where it says", func() bool { n, _ := alone.View().Table.Node("x"); return n.Rack == "r3" })
}

// TestJoin: a node joins by any other, is told what all know, and gets the same number when it asks again. One of another file
// system, or that cannot be reached, is refused.
func TestJoin(t *testing.T) {
	all := circle(t, 2, quick)
	p := sit(t, "n", quick)
	for range 2 {
		s, v, number, err := p.join(t, all[1].address()) // which does not lead
		if err != nil || number != 3 || v.Members["n"].Storage != "DS-n" || s.(*wire.RingFileSystem).Pool != "BP-1" || string(s.(*wire.RingFileSystem).Key) != "key" {
			t.Errorf("%+v, %+v, %d, %v", s, v, number, err)
		}
	}
	if _, _, _, err := p.Join(t.Context(), []string{all[0].address()}, p.self, "BP-2"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "another file system") {
		t.Error(err)
	}
	for _, m := range []dfs.Member{{}, {Name: "x", Host: "nowhere", RPC: 1, Data: 1, Peer: 1}, {Name: "x", Host: "10.0.0.1", RPC: 1, Data: 1},
		{Name: strings.Repeat("x", 300), Host: "10.0.0.1", RPC: 1, Data: 1, Peer: 1}} {
		if _, _, _, err := p.Join(t.Context(), []string{all[0].address()}, m, ""); !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, _, err := p.Join(ctx, []string{"127.0.0.1:1"}, p.self, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestJoinUnreached: a node is refused, with what is to be done, that is not where it says that it is; one that has not begun yet is reached.
func TestJoinUnreached(t *testing.T) {
	all := circle(t, 2, quick)
	secret, err := peer.NewSecret(token)
	if err != nil {
		t.Fatal(err)
	}
	port := peer.New(secret, peer.Limits{}, nil)
	new := New(Config{Port: port})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { new.Close(); port.Close(); serving.Wait() })
	serving.Go(func() { port.Serve(l) })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	portOf := func(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }
	self := dfs.Member{Name: "n", Storage: "DS-n", Host: "127.0.0.1", RPC: 1, Data: 2}
	join := func(by *place, at uint16) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		self.Peer = at
		_, _, _, err := new.Join(ctx, []string{by.address()}, self, "")
		return err
	}
	for _, by := range all {
		for what, at := range map[string]uint16{"where nobody is": portOf(closed), "at another node's place": all[1].self.Peer} {
			err := join(by, at)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), fmt.Sprint("127.0.0.1:", at)) || !strings.Contains(err.Error(), "--advertise") {
				t.Errorf("%s, by %s: %v", what, by.name, err)
			}
		}
	}
	if v := all[0].View(); len(v.Members) != 2 || len(v.Table.Nodes()) != 2 {
		t.Errorf("it is one of them: %+v", v.Members)
	}
	if err := join(all[1], portOf(l)); err != nil {
		t.Error(err)
	}
	if _, is := all[0].View().Members["n"]; !is {
		t.Error("it is none of them")
	}
	// What else it is asked before it begins waits.
	if _, err := all[0].client(target{l.Addr().String(), "n"}).Beat(t.Context(), &wire.RingBeatRequest{Member: toWire(all[0].self)}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Error(err)
	}
}

// TestStrangeBeats: who is none of the ring, or of another file system, is not noted.
func TestStrangeBeats(t *testing.T) {
	all := circle(t, 2, quick)
	c := all[1].client(targetOf(all[0].self))
	stranger := all[1].self
	stranger.Name = "stranger"
	for want, q := range map[connect.Code]*wire.RingBeatRequest{
		connect.CodeNotFound:           {Member: toWire(stranger), Pool: "BP-1"},
		connect.CodeFailedPrecondition: {Member: toWire(all[1].self), Pool: "BP-2"},
		connect.CodeInvalidArgument:    {},
	} {
		if _, err := c.Beat(t.Context(), q); connect.CodeOf(err) != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if v := all[0].View(); len(v.Members) != 2 || len(v.Table.Nodes()) != 2 {
		t.Errorf("%+v", v.Members)
	}
}

// TestMessages: messages of the consensus come to the node of their number, also where only its beats say that it is now.
func TestMessages(t *testing.T) {
	all := circle(t, 3, quick)
	to := all[0].View().Members["c"].Number
	send := func(k uint64) { all[1].Send(quorum.Message{Kind: quorum.Raft, Group: k, To: quorum.NewReplica(to, 1)}) }
	has := func(p *place, k uint64) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.ContainsFunc(p.got, func(m quorum.Message) bool { return m.Group == k })
	}
	testkit.Await(t, "b to know c", func() bool { _, ok := all[1].View().Number(to); return ok })
	testkit.Await(t, "a message", func() bool { send(1); return has(all[2], 1) })

	all[0].mu.Lock()
	all[0].leading = false // nobody leads: nothing is agreed on
	all[0].mu.Unlock()
	for _, p := range all {
		p.change(func(v *dfs.View) { v.Leader, v.Term = "", 2 })
	}
	all[2].end()
	again := sit(t, "c", quick)
	again.Learn(all[2].View())
	testkit.Await(t, "a message at another place", func() bool { send(2); return has(again, 2) })
}

// TestEnormousMessages: what is larger than any message that nodes need is refused before it is read.
func TestEnormousMessages(t *testing.T) {
	all := circle(t, 2, quick)
	testkit.Await(t, "both to know both", func() bool { return len(all[0].View().Members) == 2 && len(all[1].View().Members) == 2 })
	enormous := strings.Repeat("x", mostMessage+1)
	to := all[0].View().Members["b"]
	if _, err := all[0].Blocks(to).Judge(t.Context(), &wire.JudgeRequest{Node: enormous}); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("about blocks: %.200v", err)
	}
	if _, err := all[0].client(targetOf(to)).Beat(t.Context(), &wire.RingBeatRequest{Leader: enormous}); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("about the ring: %.200v", err)
	}
	if _, err := all[0].Blocks(to).Held(t.Context(), &wire.HeldRequest{}); err != nil {
		t.Error(err)
	}
}

// TestRemovedStaysOff: a node that was removed is refused with what it has, by whomever it asks; one that is known is not, nor a new one.
func TestRemovedStaysOff(t *testing.T) {
	all := circle(t, 4, quick)
	lead, gone := all[0], all[2]
	for _, p := range all {
		testkit.Await(t, "all to know all", func() bool { return len(p.View().Table.Nodes()) == 4 && p.View().Leader == "a" })
	}
	for _, e := range []ring.Event{ring.Drain{Node: "c"}, ring.Remove{Node: "c"}} {
		if _, err := lead.ChangeRing(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range []*place{lead, all[1]} {
		if _, _, _, err := gone.Join(t.Context(), []string{by.address()}, gone.self, "BP-1"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "node c was removed") {
			t.Errorf("asking %s: %v", by.name, err)
		}
	}
	if _, there := lead.View().Table.Node("c"); there {
		t.Error("it is on the ring again")
	}
	if _, _, _, err := all[3].Join(t.Context(), []string{all[1].address()}, all[3].self, "BP-1"); err != nil {
		t.Error(err)
	}
	if _, _, _, err := gone.join(t, all[1].address()); err != nil { // with an empty directory: its name is as good as a new one
		t.Error(err)
	}
}

// TestRemovedWhileItIsNoted: a node that is removed while where it is, or what it understands, is being noted is not entered anew by that.
func TestRemovedWhileItIsNoted(t *testing.T) {
	a := sit(t, "a", knowing(2))
	a.leadFrom(nil, 1)
	a.change(func(v *dfs.View) { v.Version = 1 })
	b := sit(t, "b", knowing(2))
	_, with, _, err := b.join(t, a.address())
	if err != nil {
		t.Fatal(err)
	}
	table, err := ring.New(64, 3, ring.Node{Name: "a", Weight: 1})
	if err != nil {
		t.Fatal(err)
	}
	times := make(chan dfs.Member, 10)
	a.mu.Lock()
	a.admits = func(m dfs.Member) {
		if m.Name != "b" {
			return
		}
		times <- m
		a.change(func(v *dfs.View) { delete(v.Members, "b"); v.Table = table; v.Index++ })
	}
	a.mu.Unlock()
	gone := func(what string) {
		t.Helper()
		if m := <-times; m.Name != "b" || m.Number != with.Members["b"].Number {
			t.Errorf("%s: %+v", what, m)
		}
		testkit.Await(t, "it to hear that it is none of the ring", func() bool { return strings.Contains(b.said.String(), "none of the ring") })
		if _, there := a.View().Members["b"]; there {
			t.Errorf("%s enters it anew", what)
		}
	}
	a.change(func(v *dfs.View) { v.Version = 2; v.Index++ }) // so each is noted anew
	b.Learn(with)
	gone("a beat")

	a.change(func(v *dfs.View) { v.Members, v.Table, v.Index = with.Members, with.Table, v.Index+1 })
	if _, _, _, err := b.Join(t.Context(), []string{a.address()}, b.self, "BP-1"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("%v", err)
	}
	gone("a start")
}
