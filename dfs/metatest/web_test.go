package metatest

import (
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"headrace/dfs"
	"headrace/dfs/web"
	"headrace/hdfs/hdfstest"
	"headrace/meta"
)

// TestWebAsMeta gives the same operations to a node over WebHDFS and to package meta, which TestAsHDFS compares with a real HDFS.
func TestWebAsMeta(t *testing.T) {
	m := meta.DefaultConfig()
	m.MinBlockSize = 0
	l := newLocal()
	node, err := dfs.Open(dfs.Config{Dir: t.TempDir(), Owner: hdfstest.User, Meta: &m, Upkeep: time.Hour, ScrubRate: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := web.New(web.Config{Node: node, Host: "127.0.0.1", Groups: func(u string) []string { return l.groups[u] }})
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(on) }()
	defer func() {
		s.Shutdown()
		if err := errors.Join(<-ended, node.Close()); err != nil {
			t.Error(err)
		}
	}()
	r := &remote{"http://" + on.Addr().String()}
	both := func(o op) {
		t.Helper()
		if want, got := outcome(l.do(o)), outcome(r.do(o)); want != got {
			t.Fatalf("%v\nmeta: %s\nweb:  %s", o, want, got)
		}
	}
	both(op{user: hdfstest.User, name: "SETPERMISSION", path: "/", q: map[string]string{"permission": "1777"}})
	g := &generator{rand.New(rand.NewPCG(*seed, 2))}
	for i := range *count {
		o := g.next()
		if o.name == "CREATE" { // a block of another file has the room that it was made with, also after CONCAT
			o.q["blocksize"] = "1024"
		}
		both(o)
		if i%100 == 99 {
			compareTrees(t, func(o op) bool { both(o); return false }, l, "/")
		}
	}
}
