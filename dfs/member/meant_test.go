package member

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/internal/testkit"
	"headrace/quorum"
	"headrace/ring"
	"headrace/wire"
)

// TestFoundedAgain: a first node that has lost its directory founds another file system where it was, and has the same token.
// It takes nothing that is meant for the one it was, and is not disturbed; the others have lost a node, and hear what is to be done, as it does.
func TestFoundedAgain(t *testing.T) {
	all := circle(t, 3, quick)
	lost, lead, third := all[0], all[1], all[2]
	for _, p := range all {
		testkit.Await(t, "all to know all", func() bool { return len(p.View().Table.Nodes()) == 3 })
	}
	lead.leadFrom(lost, 2)
	was := lead.View().Members["a"]
	address := lost.address()
	lost.end()

	again := sitAt(t, "x", "BP-2", address, quick)
	again.leadFrom(nil, 1)
	carried := 0
	again.served = func(*ipc.Call) (proto.Message, error) { carried++; return info("another file system's"), nil }
	again.web = func(http.ResponseWriter, *http.Request, string) { carried++ }
	testkit.Await(t, "the lost one to be down", func() bool { return lead.state("a") == ring.IsDown })
	testkit.Await(t, "it to be accused", func() bool { return slices.Contains(third.unreachable(), "a") })

	// It has the number, and any seat that a founder has.
	testkit.Await(t, "a refusal of messages", func() bool {
		lead.Send(quorum.Message{Kind: quorum.Raft, Group: 1, To: quorum.NewReplica(was.Number, 1)})
		return strings.Contains(lead.said.String(), "another file system, BP-2, and not node a of BP-1")
	})
	_, err := third.Blocks(was).Held(t.Context(), &wire.HeldRequest{})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "started with an empty directory and --join") {
		t.Error(err)
	}
	if _, err := lead.Blocks(third.View().Members["c"]).Held(t.Context(), &wire.HeldRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := third.client(target{address: address}).Beat(t.Context(), &wire.RingBeatRequest{Member: toWire(third.self)}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Error(err)
	}
	// To who believes that the lost one leads still, it answers neither calls nor requests.
	_, err = third.client(targetOf(was)).Pass(t.Context(), passed(call(0, 1, "anna")))
	if !refused(err) {
		t.Error(err)
	}
	w := httptest.NewRecorder()
	if err := third.passWeb(w, httptest.NewRequest("GET", "/webhdfs/v1/a", nil), "anna", was); !errors.Is(err, errMisdirected) {
		t.Errorf("%v, %+v", err, w)
	}
	if said := again.said.String(); !strings.Contains(said, "If it has lost its directory") || !strings.Contains(said, "--join") || !strings.Contains(said, "their=BP-1") {
		t.Error(said)
	}
	again.mu.Lock()
	defer again.mu.Unlock()
	if v := again.view; len(again.got) > 0 || carried > 0 || len(v.Members) != 1 || v.Term != 1 {
		t.Errorf("it was told %v, %d, %+v", again.got, carried, v)
	}
	if v := lead.View(); len(v.Members) != 3 || v.Term != 2 || lead.state("c") != ring.IsUp {
		t.Errorf("%+v", v)
	}
}

// TestAddressOfAnother: a node that is at another one's old address does not answer for it, but does for itself.
func TestAddressOfAnother(t *testing.T) {
	all := circle(t, 3, quick)
	for _, p := range all {
		testkit.Await(t, "all to know all", func() bool { return len(p.View().Table.Nodes()) == 3 })
	}
	was, address := all[2].self, all[2].address()
	all[2].end()
	b := sitAt(t, "d", "BP-1", address, quick)
	if _, v, _, err := b.Join(t.Context(), []string{all[1].address()}, b.self, ""); err != nil {
		t.Fatal(err)
	} else {
		b.Learn(v)
	}
	if _, err := all[0].Blocks(was).Held(t.Context(), &wire.HeldRequest{}); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "here is node d, and not node c") {
		t.Error(err)
	}
	if _, err := all[0].Blocks(b.self).Held(t.Context(), &wire.HeldRequest{}); err != nil {
		t.Error(err)
	}
	testkit.Await(t, "the lost one to be down", func() bool { return all[0].state("c") == ring.IsDown })
	testkit.Await(t, "a beat of the other", func() bool { _, ok := all[0].Heard("d"); return ok })
	number := func(name string) uint32 { return all[0].View().Members[name].Number }
	testkit.Await(t, "a message to it, and a refusal of one to the lost one", func() bool {
		all[0].Send(quorum.Message{Kind: quorum.Raft, Group: 1, To: quorum.NewReplica(number("c"), 1)})
		all[0].Send(quorum.Message{Kind: quorum.Raft, Group: 2, To: quorum.NewReplica(number("d"), 1)})
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.got) > 0 && strings.Contains(all[0].said.String(), "here is node d, and not node c")
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.got {
		if m.Group != 2 {
			t.Errorf("it was told %+v", m)
		}
	}
}

// TestUnnamed: what names nobody is refused, but for those who cannot know.
func TestUnnamed(t *testing.T) {
	p := sit(t, "a", quick)
	p.leadFrom(nil, 1)
	for _, to := range []meant{{}, {"", "a"}, {"BP-1", ""}, {"BP-1", "b"}, {"BP-2", "a"}} {
		q, _ := http.NewRequest("POST", "https://"+p.address()+webPath, http.NoBody)
		to.set(q.Header)
		a, err := p.port.Bulk().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%+v: %s", to, a.Status)
		}
		if err := p.welcome(to.hello(), p.port.Addr()); err == nil {
			t.Errorf("%+v is welcome", to)
		}
		// Each node that joins calls so once or twice.
		if said := p.said.String(); to.pool == "" && strings.Contains(said, "refuses") {
			t.Errorf("%+v: %s", to, said)
		}
	}
	if err := p.welcome(meant{"BP-1", "a"}.hello(), p.port.Addr()); err != nil {
		t.Error(err)
	}
}
