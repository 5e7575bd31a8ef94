package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/internal/testkit"
	"headrace/wire"
)

func (p *place) pass(c *ipc.Call) (string, error) {
	a, err := p.Pass(context.Background(), c, p.led[protocol])
	if err != nil {
		return "", err
	}
	return string(a.(*pb.GetFileInfoResponseProto).GetFs().GetPath()), nil
}

func info(path string) *pb.GetFileInfoResponseProto {
	kind := pb.HdfsFileStatusProto_IS_FILE
	return &pb.GetFileInfoResponseProto{Fs: &pb.HdfsFileStatusProto{FileType: &kind, Path: []byte(path), Length: proto.Uint64(0), Permission: &pb.FsPermissionProto{Perm: proto.Uint32(0)},
		Owner: proto.String(""), Group: proto.String(""), ModificationTime: proto.Uint64(0), AccessTime: proto.Uint64(0)}}
}

// TestLargePassedOn: answers to calls that others have passed on wait for each other as those of the node's own clients do.
func TestLargePassedOn(t *testing.T) {
	all := circle(t, 3, quick)
	server := ipc.Server{Limits: ipc.Limits{Large: 100}}
	all[0].led[protocol].Enter = server.Enter
	var building, most atomic.Int32
	all[0].served = func(c *ipc.Call) (proto.Message, error) {
		if err := c.Reserve(t.Context(), 60); err != nil {
			return nil, err
		}
		if n := building.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer building.Add(-1)
		runtime.Gosched()
		return info("large"), nil
	}
	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			if path, err := all[1].pass(call(9, int32(i), "anna")); err != nil || path != "large" {
				t.Errorf("%q, %v", path, err)
			}
		})
	}
	calls.Wait()
	if most.Load() != 1 {
		t.Errorf("%d were put together at once", most.Load())
	}
}

// TestPass: what a node passes on is what the client has said, and who it is; answers and exceptions are the leader's.
func TestPass(t *testing.T) {
	all := circle(t, 3, quick)
	var got *ipc.Call
	all[0].served = func(c *ipc.Call) (proto.Message, error) {
		got = c
		switch c.ID {
		case 2:
			return nil, &ipc.Exception{Class: "java.lang.X", Message: "no", Code: pb.RpcResponseHeaderProto_ERROR_NO_SUCH_METHOD}
		case 3:
			panic("as planned")
		case 4:
			return nil, errors.New("plain")
		}
		return info("of the leader"), nil
	}
	c := call(9, 1, "anna")
	c.Remote, c.Retry, c.Context = netip.MustParseAddrPort("10.1.2.3:4567"), 3, "job 7"
	if path, err := all[1].pass(c); err != nil || path != "of the leader" {
		t.Fatalf("%q, %v", path, err)
	}
	if got.User.Name != "anna" || got.Client != c.Client || got.ID != 1 || got.Retry != 3 || got.Remote != c.Remote || got.Context != "job 7" || string(got.Request) != string(c.Request) {
		t.Errorf("%+v", got)
	}
	for id, want := range map[int32]string{2: "java.lang.X: no", 3: "java.lang.RuntimeException: internal error in getFileInfo", 4: "java.io.IOException: plain"} {
		if _, err := all[2].pass(call(9, id, "anna")); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLeaderMoves: callers of all nodes notice nothing of leaders that change, and of one that is lost; a call that comes again is the same.
func TestLeaderMoves(t *testing.T) {
	all := circle(t, 4, quick)
	var mu sync.Mutex
	calls := map[string]int{}
	for _, p := range all {
		p.served = func(c *ipc.Call) (proto.Message, error) {
			mu.Lock()
			defer mu.Unlock()
			calls[fmt.Sprintf("%v/%d/%s", c.Client, c.ID, c.User.Name)]++
			return info(c.User.Name), nil
		}
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	done := make([]int32, 8)
	for i := range done {
		callers.Go(func() {
			user := fmt.Sprint("user", i)
			for id := int32(1); ; id++ {
				if path, err := all[1+i%3].pass(call(byte(i+1), id, user)); err != nil || path != user {
					t.Errorf("%q, %v", path, err)
					return
				}
				mu.Lock()
				done[i] = id
				mu.Unlock()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	more := func() {
		mu.Lock()
		was := append([]int32{}, done...)
		mu.Unlock()
		testkit.Await(t, "all callers to go on", func() bool {
			mu.Lock()
			defer mu.Unlock()
			for i := range done {
				if done[i] < was[i]+3 {
					return false
				}
			}
			return true
		})
	}
	more()
	all[1].leadFrom(all[0], 2)
	more()
	all[2].leadFrom(all[1], 3)
	more()
	all[0].leadFrom(all[2], 4)
	more()
	all[3].leadFrom(all[0], 5)
	all[0].end() // who still takes it for the leader finds nobody
	more()
	close(stop)
	callers.Wait()
	for i, n := range done {
		for id := int32(1); id <= n; id++ {
			if calls[fmt.Sprintf("%v/%d/user%d", ipc.ClientID{byte(i + 1)}, id, i)] == 0 {
				t.Errorf("call %d of user%d was answered by nobody", id, i)
			}
		}
	}
}

// TestNobodyLeads: a call waits for a time, then the client is sent elsewhere; and no longer than its client does.
func TestNobodyLeads(t *testing.T) {
	c := quick
	c.Wait = 200 * time.Millisecond
	p := sit(t, "a", c)
	_, err := p.pass(call(1, 1, "anna"))
	if e, ok := errors.AsType[*ipc.Exception](err); !ok || e.Class != classStandby {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Pass(ctx, call(1, 1, "anna"), p.led[protocol]); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestUnnumberedCalls: a call whose client has no id is not carried out twice.
func TestUnnumberedCalls(t *testing.T) {
	all := circle(t, 2, quick)
	n := 0
	lost := make(chan struct{})
	all[0].served = func(c *ipc.Call) (proto.Message, error) {
		n++
		go func() { defer close(lost); all[0].end() }()
		testkit.Await(t, "the caller's connection to be lost", func() bool {
			_, err := all[1].client(target{address: all[0].address()}).Ping(t.Context(), &wire.RingPingRequest{})
			return unheard(err)
		})
		return info("x"), nil
	}
	_, err := all[1].pass(call(0, 1, "anna"))
	<-lost
	if err == nil || n != 1 {
		t.Errorf("%v, carried out %d times", err, n)
	}
}

// serveWeb serves the web of a node to clients, as dfs/web does.
func (p *place) serveWeb(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered, err := p.PassWeb(w, r, "anna")
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusForbidden)
		case !answered:
			p.web(w, r, "anna")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestPassWeb: a request comes to the leader with its bytes, as of the user that the node has found, whatever the client says.
func TestPassWeb(t *testing.T) {
	all := circle(t, 2, quick)
	for _, p := range all {
		p.web = func(w http.ResponseWriter, r *http.Request, user string) {
			if r.URL.Query().Get("data") == "" && r.Method == "PUT" {
				http.Redirect(w, r, "http://"+r.Host+r.URL.RequestURI()+"&data=true", http.StatusTemporaryRedirect)
				return
			}
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s: %s %s as %s with %d bytes for %s", p.name, r.Method, r.URL.Path, user, len(b), r.Host)
			if !strings.HasPrefix(r.URL.RawQuery, "user.name=anna&x=a;b%20") {
				t.Errorf("the query is %s", r.URL.RawQuery)
			}
			if !strings.HasPrefix(r.RemoteAddr, "127.0.0.1:") {
				t.Errorf("the client is at %s", r.RemoteAddr)
			}
		}
	}
	s := all[1].serveWeb(t)
	ask := func(method, body string) string {
		q, err := http.NewRequest(method, s.URL+"/webhdfs/v1/a%20b//c/d?user.name=anna&x=a;b%20", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set(userHeader, "root")
		q.Header.Set(remoteHeader, "10.9.9.9:1")
		q.Header.Set(uriHeader, "/webhdfs/v1/other?user.name=root")
		q.Header.Set("Connection", userHeader+", "+remoteHeader+", "+uriHeader)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		return string(b)
	}
	host := strings.TrimPrefix(s.URL, "http://")
	big := strings.Repeat("x", 1<<20)
	for range 10 { // of which each comes twice: it is redirected
		if got, want := ask("PUT", big), "a: PUT /webhdfs/v1/a b//c/d as anna with 1048576 bytes for "+host; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	all[1].leadFrom(all[0], 2)
	if got, want := ask("GET", ""), "b: GET /webhdfs/v1/a b//c/d as anna with 0 bytes for "+host; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLeaderHangs: a call that was passed to a node which never answers goes to the one that leads after it.
func TestLeaderHangs(t *testing.T) {
	all := circle(t, 3, quick)
	asked, end := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) }) // it may be passed there again
	defer close(end)
	all[0].served = func(*ipc.Call) (proto.Message, error) {
		once()
		<-end
		return info("too late"), nil
	}
	all[2].served = func(*ipc.Call) (proto.Message, error) { return info("of the next one"), nil }
	answer := make(chan string, 1)
	go func() {
		path, err := all[1].pass(call(9, 1, "anna"))
		answer <- fmt.Sprint(path, err)
	}()
	<-asked
	all[2].leadFrom(all[0], 2)
	testkit.Await(t, "an answer", func() bool { return len(answer) > 0 })
	if got := <-answer; got != "of the next one<nil>" {
		t.Error(got)
	}
}
