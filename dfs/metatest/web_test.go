package metatest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/dfs"
	"headrace/dfs/web"
	"headrace/hdfs/hdfstest"
	"headrace/meta"
)

// serveWeb serves a node of hdfstest.User over WebHDFS.
func serveWeb(t *testing.T) *remote {
	t.Helper()
	m := meta.DefaultConfig()
	m.MinBlockSize = 0
	node, err := dfs.Open(dfs.Config{Dir: t.TempDir(), Owner: hdfstest.User, Meta: &m, Upkeep: time.Hour, ScrubRate: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := web.New(web.Config{Node: node, Host: "127.0.0.1", Groups: func(u string) []string { return newLocal().groups[u] }})
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(on) }()
	t.Cleanup(func() {
		s.Shutdown()
		if err := errors.Join(<-ended, node.Close()); err != nil {
			t.Error(err)
		}
	})
	return &remote{url: "http://" + on.Addr().String()}
}

// nextWeb is an operation for both sides. A block of another file has the room that it was made with, also after CONCAT.
func (g *generator) nextWeb() op {
	o := g.next()
	if o.name == "CREATE" {
		o.q["blocksize"] = "1024"
	}
	return o
}

// TestWebAsMeta gives the same operations to a node over WebHDFS and to package meta, which TestAsHDFS compares with a real HDFS.
func TestWebAsMeta(t *testing.T) {
	r, l := serveWeb(t), newLocal()
	both := func(o op) {
		t.Helper()
		if want, got := outcome(l.do(o)), outcome(r.do(o)); want != got {
			t.Fatalf("%v\nmeta: %s\nweb:  %s", o, want, got)
		}
	}
	both(op{user: hdfstest.User, name: "SETPERMISSION", path: "/", q: map[string]string{"permission": "1777"}})
	g := &generator{rand.New(rand.NewPCG(*seed, 2))}
	for i := range *count {
		both(g.nextWeb())
		if i%100 == 99 {
			compareTrees(t, func(o op) bool { both(o); return false }, l, "/")
		}
	}
}

// TestWebAsHDFS gives operations, and what is none, to a node and to a real HDFS over WebHDFS, and compares answers and status codes.
func TestWebAsHDFS(t *testing.T) {
	h, r := &remote{url: shared.Get(t).URL()}, serveWeb(t)
	h.do(op{user: hdfstest.User, name: "DELETE", path: "/probe"})
	const below = "/web" // the tests share an HDFS
	both := func(o op) {
		t.Helper()
		want, got := outcome(h.do(o)), outcome(r.do(o))
		if want += fmt.Sprint(" ", h.code); want != got+fmt.Sprint(" ", r.code) {
			t.Errorf("%v\nHDFS: %s\nweb:  %s %d", o, want, got, r.code)
		}
	}
	both(op{user: hdfstest.User, name: "MKDIRS", path: below, q: map[string]string{"permission": "1777"}})
	g := &generator{rand.New(rand.NewPCG(*seed, 3))}
	for range *count / 5 {
		o := g.nextWeb()
		if o.path == "/" || strings.HasPrefix(o.path, "/.reserved") {
			continue
		}
		o.path = below + o.path
		for _, name := range []string{"destination", "sources"} {
			if v := o.q[name]; v != "" {
				o.q[name] = below + strings.ReplaceAll(v, ",", ","+below)
			}
		}
		both(o)
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, path := range []string{"/user/" + hdfstest.User + "/.Trash", "/user/alice/.Trash/Current", "/user/bob"} {
		both(op{user: hdfstest.User, name: "MKDIRS", path: path, q: map[string]string{"permission": "750"}})
	}
	for _, q := range []string{
		"GET /web?op=NOTHING", "GET /web?op=", "GET /web?op=DELETE", "DELETE /web?op=OPEN", "GET /web/nothing?op=OPEN", "GET /web?op=OPEN", "GET /web/nothing?op=GETFILECHECKSUM",
		"POST /web/nothing?op=APPEND", "PUT /web/x?op=SETPERMISSION&permission=9", "PUT /web/x?op=SETPERMISSION&permission=7777", "PUT /web?op=SETREPLICATION&replication=70000",
		"PUT /web?op=SETOWNER", "PUT /web?op=RENAME&destination=x", "PUT /web?op=SETACL&aclspec=user", "GET /web?op=CHECKACCESS&fsaction=wxr", "PUT /web?op=SETXATTR&xattr.name=x&flag=CREATE",
		"DELETE /web?op=DELETE&recursive=maybe", "GET /web?op=OPEN&offset=-1", "GET /web?op=OPEN&length=x", "PUT /web?op=MKDIRS&permission=", "GET /web?op=GETFILESTATUS&doas=alice",
		"GET /web/../web?op=GETFILESTATUS", "PUT /web/a:b?op=MKDIRS", "PUT /web//y?op=MKDIRS", "GET /web?op=getfilestatus", "PUT /web/./z?op=MKDIRS",
		"GET /web/nothing?op=LISTSTATUS", "GET /web/nothing?op=GETACLSTATUS", "GET /web/nothing?op=GETQUOTAUSAGE", "GET /web/nothing?op=GETFILEBLOCKLOCATIONS", "GET /web/nothing?op=GETSTORAGEPOLICY",
		"POST /web?op=TRUNCATE", "POST /web?op=TRUNCATE&newlength=-1", "POST /web/nothing?op=TRUNCATE&newlength=1", "PUT /web?op=SETQUOTA", "PUT /web?op=SETQUOTA&namespacequota=-2",
		"PUT /web?op=SETXATTR&flag=CREATE", "PUT /web?op=SETXATTR&xattr.name=user.a", "PUT /web?op=RENAME", "PUT /web?op=SETACL", "POST /web?op=CONCAT", "GET /web?op=CHECKACCESS", "PUT /web?op=REMOVEXATTR",
		"GET /web/nothing?op=GETFILELINKSTATUS", "GET /web?op=GETLINKTARGET", "GET /web/nothing?op=GETLINKTARGET",
		"GET /?op=GETHOMEDIRECTORY", "GET /?op=GETTRASHROOT", "GET /web?op=LISTXATTRS", "GET /web?op=GETQUOTAUSAGE",
		"GET /?op=GETTRASHROOTS", "GET /?op=GETTRASHROOTS&allusers=true", "GET /?op=GETTRASHROOTS&allusers=maybe",
		"GET /web?op=GETECPOLICY", "GET /web/nothing?op=GETECPOLICY", "GET /?op=GETDELEGATIONTOKEN", "GET /?op=GETSNAPSHOTTABLEDIRECTORYLIST",
	} {
		if want, got := raw(t, h.url, q), raw(t, r.url, q); want != got {
			t.Errorf("%s\nHDFS: %s\nweb:  %s", q, want, got)
		}
	}
}

// raw makes a request, and returns the status and what matters of the answer.
func raw(t *testing.T, url, q string) string {
	t.Helper()
	method, at, _ := strings.Cut(q, " ")
	req, err := http.NewRequest(method, url+"/webhdfs/v1"+at+"&user.name="+hdfstest.User, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		RemoteException struct{ Exception, JavaClassName string }
	}
	if json.Unmarshal(b, &e) == nil && e.RemoteException.Exception != "" {
		return fmt.Sprint(resp.StatusCode, " ", e.RemoteException)
	}
	if strings.Contains(q, "op=GETFILESTATUS") || strings.Contains(q, "op=getfilestatus") {
		b = nil // numbers and times
	}
	var value any
	json.Unmarshal(b, &value)
	if all, ok := value.(map[string]any); ok {
		roots, _ := all["Paths"].([]any)
		for _, r := range roots {
			delete(r.(map[string]any), "modification_time")
		}
		// HDFS has them in a set, which has no order.
		slices.SortFunc(roots, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return fmt.Sprint(resp.StatusCode, " ", value)
}
