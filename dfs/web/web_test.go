package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/meta"
)

// TestOwnClient: the project's own client of WebHDFS does all that it can.
func TestOwnClient(t *testing.T) {
	s := serve(t, nil)
	c, ctx := s.as("root"), soon(t)
	data := make([]byte, 3<<20+17)
	rand.NewChaCha8([32]byte{5}).Read(data)
	err := c.Create(ctx, "/f", 0o640, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(data)); return err })
	if err != nil {
		t.Fatal(err)
	}
	if got := s.read("/f"); got != string(data) {
		t.Errorf("%d bytes", len(got))
	}
	if err := c.Create(ctx, "/f", 0o640, func(io.Writer) error { return nil }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	if err := c.MkdirAll(ctx, "/d/e", 0o755); err != nil {
		t.Error(err)
	}
	if err := c.Rename(ctx, "/f", "/d/e/g"); err != nil {
		t.Error(err)
	}
	if err := c.SetModified(ctx, "/d/e/g", time.UnixMilli(4711)); err != nil {
		t.Error(err)
	}
	if err := c.Chmod(ctx, "/d/e/g", 0o600); err != nil {
		t.Error(err)
	}
	i, err := c.Stat(ctx, "/d/e/g")
	if err != nil || i.Size != int64(len(data)) || i.Mode != 0o600 || i.Modified.UnixMilli() != 4711 {
		t.Errorf("%+v, %v", i, err)
	}
	if r, err := s.as("alice").Open(ctx, "/d/e/g"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("others read it: %v, %v", r, err)
	}
	if l, err := c.ReadDir(ctx, "/d/e"); err != nil || len(l) != 1 || l[0].Name != "g" {
		t.Errorf("%v, %v", l, err)
	}
	if err := c.RemoveAll(ctx, "/d"); err != nil {
		t.Error(err)
	}
	if _, err := c.Stat(ctx, "/d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	as, err := c.As("alice")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as.Stat(ctx, "/"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("in the name of another: %v", err)
	}
}

// TestRanges: parts of a file of several blocks, also while it is written.
func TestRanges(t *testing.T) {
	s := serve(t, nil)
	text := strings.Repeat("0123456789abcdef", 250) // 4000 bytes
	resp, _ := s.send("PUT", "/f", "op=CREATE&data=true&blocksize=1024&replication=1", text)
	if resp.StatusCode != http.StatusCreated || resp.Header.Get("Location") != "webhdfs"+strings.TrimPrefix(s.url, "http")+"/f" {
		t.Fatalf("%v", resp)
	}
	for _, part := range [][2]int{{0, 4000}, {1, 1}, {1023, 2}, {511, 2}, {1024, 1024}, {3999, 100}, {500, 3000}, {100, 0}} {
		resp, body := s.ask("GET", "/f", fmt.Sprintf("op=OPEN&data=true&offset=%d&length=%d", part[0], part[1]))
		if want := text[part[0]:min(4000, part[0]+part[1])]; body != want || resp.ContentLength != int64(len(want)) {
			t.Errorf("%v: %d bytes of %d, want %d", part, len(body), resp.ContentLength, len(want))
		}
	}
	s.throws(403, "IOException", "GET", "/f", "op=OPEN&offset=4000")
	s.throws(403, "EOFException", "GET", "/f", "op=OPEN&offset=4001&data=true")
	s.throws(404, "FileNotFoundException", "GET", "/", "op=OPEN&data=true")
	s.throws(404, "FileNotFoundException", "GET", "/nowhere", "op=OPEN")
	if resp, body := s.send("POST", "/f", "op=APPEND&data=true", "the end"); resp.StatusCode != 200 {
		t.Fatalf("%v %s", resp, body)
	}
	if got := s.read("/f"); got != text+"the end" {
		t.Errorf("%d bytes", len(got))
	}
	if _, body := s.ask("GET", "/f", "op=GETFILEBLOCKLOCATIONS"); strings.Count(body, `"127.0.0.1:9866"`) != 4 {
		t.Errorf("%s", body)
	}
}

// send makes a request with a body.
func (s *site) send(method, path, query, body string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+"/webhdfs/v1"+path+"?user.name=root&"+query, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp, string(b)
}

// TestRedirect: a client is sent to the address that it has used, with all that it has said.
func TestRedirect(t *testing.T) {
	s := serve(t, nil)
	s.write("/a b+c%41ü", "text")
	const at = "/a b+c%41ü"
	resp, body := s.ask("GET", at, "op=OPEN&offset=1", "Host", "ignored")
	to := s.url + "/webhdfs/v1/a%20b+c%2541%C3%BC?user.name=root&op=OPEN&offset=1&data=true"
	if resp.StatusCode != http.StatusTemporaryRedirect || resp.Header.Get("Location") != to || body != "" {
		t.Errorf("%d %s, want %s", resp.StatusCode, resp.Header.Get("Location"), to)
	}
	resp, body = s.ask("GET", at, "op=OPEN&offset=1&noredirect=true")
	if want := strings.ReplaceAll(to, "offset=1", "offset=1&noredirect=true"); resp.StatusCode != 200 || body != `{"Location":"`+strings.ReplaceAll(want, "&", `\u0026`)+`"}` {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if got := s.read(at); got != "text" {
		t.Errorf("%q", got)
	}
	if names, err := s.as("root").ReadDir(soon(t), "/"); err != nil || len(names) != 1 || names[0].Name != at[1:] {
		t.Errorf("%v, %v", names, err)
	}
}

// TestContinue: a client that waits before it sends bytes is told to, but where it is only sent on.
func TestContinue(t *testing.T) {
	s := serve(t, nil)
	for query, first := range map[string]string{"op=CREATE": "HTTP/1.1 307 ", "op=CREATE&data=true": "HTTP/1.1 100 "} {
		nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		fmt.Fprintf(nc, "PUT /webhdfs/v1/f?user.name=root&%s HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n", query)
		r := bufio.NewReader(nc)
		line, err := r.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, first) {
			t.Errorf("%s: %q, %v", query, line, err)
		}
		if strings.Contains(line, "100") {
			r.ReadString('\n')
			io.WriteString(nc, "text")
			if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 201 ") {
				t.Errorf("%q, %v", line, err)
			}
		}
	}
	if got := s.read("/f"); got != "text" {
		t.Errorf("%q", got)
	}
}

// TestBrokenBody: a file whose bytes stop coming is closed at what has come, and the next writer may have it.
func TestBrokenBody(t *testing.T) {
	s := serve(t, nil)
	nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(nc, "PUT /webhdfs/v1/f?user.name=root&op=CREATE&data=true&blocksize=1024 HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n%s", strings.Repeat("x", 2500))
	testkit.Await(t, "two whole blocks", func() bool { v := s.stat("/f"); return v != nil && v.Located != nil && len(v.Located.Blocks) == 2 })
	nc.Close()
	testkit.Await(t, "the file to be closed", func() bool { v := s.stat("/f"); return !v.Located.Open })
	if got := s.read("/f"); got != strings.Repeat("x", 2500) {
		t.Errorf("%d bytes", len(got))
	}
	if resp, body := s.send("POST", "/f", "op=APPEND&data=true", "y"); resp.StatusCode != 200 {
		t.Errorf("%v %s", resp, body)
	}
}

// TestSilentBody: a client that sends nothing more is not waited for.
func TestSilentBody(t *testing.T) {
	s := serve(t, func(c *Config) { c.BodyTime = 50 * time.Millisecond })
	nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	fmt.Fprintf(nc, "PUT /webhdfs/v1/f?user.name=root&op=CREATE&data=true HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\nxyz")
	testkit.Await(t, "the file to be closed", func() bool { v := s.stat("/f"); return v != nil && v.Located != nil && !v.Located.Open })
	if size := s.stat("/f").Size; size != 3 {
		t.Errorf("%d bytes", size)
	}
}

// TestWhatTakesLong: time is bounded for what a client does, and not for what it waits for.
func TestWhatTakesLong(t *testing.T) {
	// On a busy machine what the client does may itself take so long.
	testkit.Longer(t, 200*time.Millisecond, func(each time.Duration) error { return takesLong(t, each) })
}

// takesLong has requests take three times as long as a client may.
func takesLong(t *testing.T, each time.Duration) error {
	s := serve(t, func(c *Config) { c.BodyTime, c.SendTime = each, each })
	long := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(3 * each):
			return nil
		}
	}
	look["GET LONG"] = func(r *request) (any, error) { return nil, long(r.r.Context()) }
	change["PUT LONG"] = func(r *request) (any, error) {
		if _, err := io.ReadAll(r.r.Body); err != nil {
			return nil, err
		}
		if err := long(r.r.Context()); err != nil {
			return nil, err
		}
		r.w.WriteHeader(http.StatusCreated)
		return served, nil
	}
	defer delete(look, "GET LONG")
	defer delete(change, "PUT LONG")
	ask := func(method, text string, want int) error {
		req, err := http.NewRequest(method, s.url+"/webhdfs/v1/?user.name=root&op=LONG", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != want {
			return fmt.Errorf("%s after %v: %s %s, %w", method, 3*each, resp.Status, body, err)
		}
		return nil
	}
	return errors.Join(ask("GET", "", http.StatusOK), ask("PUT", "text", http.StatusCreated))
}

// TestSlowReader: a client that pauses gets all of a file; it has as long as by data transfer.
func TestSlowReader(t *testing.T) {
	const each, n = 50 * time.Millisecond, 32 << 20 // more than is under way
	s := serve(t, func(c *Config) { c.BodyTime = each })
	w, err := s.node.Create(t.Context(), meta.Caller{User: "root", Super: true}, meta.Create{Path: "/f", Mode: 0o644, Flags: meta.FlagCreate, Replication: 1, BlockSize: n}, false)
	if err == nil {
		_, err = w.Write(make([]byte, n))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(s.url + "/webhdfs/v1/f?user.name=root&op=OPEN&data=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.Sleep(8 * each) // as who looks at the first page
	if got, err := io.Copy(io.Discard, resp.Body); got != n || err != nil {
		t.Errorf("%d bytes, %v", got, err)
	}
}

// TestUnwantedBody: a client that says it will send bytes, which nobody wants, and does not, loses its connection.
func TestUnwantedBody(t *testing.T) {
	s := serve(t, func(c *Config) { c.BodyTime = 50 * time.Millisecond })
	for _, path := range []string{"/webhdfs/v1/d?user.name=root&op=MKDIRS", "/webhdfs/v1/f?user.name=root&op=CREATE", "/elsewhere"} {
		nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(2 * time.Minute))
		fmt.Fprintf(nc, "PUT %s HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\nxyz", path)
		if _, err := io.ReadAll(nc); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is kept", path)
		}
	}
}

// TestShutdownWhileWriting: the end of the server waits for nobody, and closes files.
func TestShutdownWhileWriting(t *testing.T) {
	s := serve(t, nil)
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(soon(t), "PUT", s.url+"/webhdfs/v1/f?user.name=root&op=CREATE&data=true", r)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
			err = errors.New(resp.Status)
		}
		answered <- err
	}()
	io.WriteString(w, "part")
	testkit.Await(t, "a block", func() bool { v := s.stat("/f"); return v != nil && len(v.Located.Blocks) == 1 })
	s.s.Shutdown()
	w.Close()
	if err := <-answered; err == nil {
		t.Error("answered well")
	}
	if v := s.stat("/f"); v.Located.Open || v.Size != 4 {
		t.Errorf("%+v", v)
	}
}

// TestRefusals: what is wrong is refused as HDFS refuses it.
func TestRefusals(t *testing.T) {
	s := serve(t, nil)
	s.write("/f", "text")
	s.throws(400, "IllegalArgumentException", "GET", "/f", "op=NOTHING")
	s.throws(400, "IllegalArgumentException", "GET", "/f", "op=DELETE")
	s.throws(400, "UnsupportedOperationException", "GET", "/f", "")
	s.throws(400, "IllegalArgumentException", "GET", "/f", "op=OPEN&offset=-1")
	s.throws(400, "IllegalArgumentException", "GET", "/f", "op=OPEN&offset=x&data=true")
	s.throws(400, "IllegalArgumentException", "GET", "/f", "op=OPEN&data=maybe")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=SETPERMISSION&permission=8")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=SETPERMISSION&permission=7777")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=SETREPLICATION&replication=70000")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=SETOWNER")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=RENAME&destination=g")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=RENAME&destination=/g&renameoptions=TO_TRASH")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=SETACL&aclspec=user")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=SETACL&aclspec=user::rwxrwx")
	s.throws(400, "IllegalArgumentException", "GET", "/f", "op=CHECKACCESS&fsaction=wxr")
	s.throws(400, "HadoopIllegalArgumentException", "PUT", "/f", "op=SETXATTR&xattr.name=one&flag=CREATE")
	s.throws(400, "IllegalArgumentException", "PUT", "/f", "op=SETXATTR&xattr.name=user.one&xattr.value=0xZ&flag=CREATE")
	s.throws(400, "IllegalArgumentException", "GET", "/f", "op=GETFILESTATUS&x=%FF")
	s.throws(400, "IllegalArgumentException", "GET", "/f", "op=GETFILESTATUS;x=1")
	s.throws(400, "IllegalArgumentException", "GET", "/\xff", "op=GETFILESTATUS")
	s.throws(403, "IOException", "GET", "/"+strings.Repeat("n", 40<<10), "op=GETFILESTATUS")
	s.throws(400, "UnsupportedOperationException", "PUT", "/f", "op=SETSTORAGEPOLICY&storagepolicy=COLD")
	for _, policy := range []string{"storagepolicy=ALL_SSD", "ecpolicy=RS-6-3-1024k"} {
		s.throws(400, "UnsupportedOperationException", "PUT", "/new", "op=CREATE&"+policy)
		s.throws(400, "UnsupportedOperationException", "PUT", "/new", "op=CREATE&data=true&"+policy)
	}
	s.throws(404, "FileNotFoundException", "PUT", "/nowhere", "op=SETSTORAGEPOLICY&storagepolicy=HOT")
	for _, q := range [][2]string{{"PUT", "op=SETSTORAGEPOLICY&storagepolicy=HOT"}, {"POST", "op=UNSETSTORAGEPOLICY"}} {
		if resp, body := s.ask(q[0], "/f", q[1]); resp.StatusCode != 200 || body != "" {
			t.Errorf("%v: %d %s", q, resp.StatusCode, body)
		}
	}
	s.throws(400, "IllegalArgumentException", "POST", "/f", "op=TRUNCATE")
	s.throws(403, "AuthorizationException", "GET", "/f", "op=GETFILESTATUS&doas=alice")
	s.throws(403, "AccessControlException", "GET", "/f", "op=GETFILESTATUS&delegation=x")
	s.throws(403, "AuthorizationException", "GET", "/f", "op=GETFILESTATUS", "Origin", "http://example.org")
	s.throws(403, "AuthorizationException", "GET", "/f", "op=OPEN&data=true", "User-Agent", "Mozilla/5.0 (X11)")
	for _, path := range []string{"/../etc/passwd", "/d/../../../../etc/passwd", "/.."} {
		s.throws(404, "FileNotFoundException", "GET", path, "op=OPEN")
		if resp, body := s.ask("PUT", path, "op=MKDIRS"); resp.StatusCode/100 != 4 {
			t.Errorf("%s is made: %v %s", path, resp, body)
		}
	}
	for _, path := range []string{"/", "/etc/passwd", "/webhdfs/v2/f", "/webhdfs/v1x"} {
		resp, err := http.Get(s.url + path)
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	// Who does not say who it is is nobody in particular.
	resp, err := http.DefaultClient.Do(must(http.NewRequest("PUT", s.url+"/webhdfs/v1/d?op=MKDIRS", nil)))
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("%v, %v", resp, err)
	}
	if err == nil {
		resp.Body.Close()
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestConnections: one too many takes the place of the one that is idle for longest, and those that work stay.
func TestConnections(t *testing.T) {
	s := serve(t, func(c *Config) { c.Connections, c.AddressConnections = 3, 3 })
	s.write("/f", "text")
	var idle []net.Conn
	for range 5 {
		nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		idle = append(idle, nc)
	}
	if got := s.read("/f"); got != "text" {
		t.Errorf("%q", got)
	}
	if n, err := idle[0].Read(make([]byte, 1)); err == nil {
		t.Errorf("the first is served still: %d", n)
	}
}

// TestBodiesThatNobodyWants: who sends half a body to where nobody wants it keeps nobody out.
func TestBodiesThatNobodyWants(t *testing.T) {
	var came atomic.Int32
	s := serve(t, func(c *Config) {
		c.Connections, c.AddressConnections, c.BodyTime = 3, 3, time.Hour
		c.Pass = func(http.ResponseWriter, *http.Request, string) (bool, error) { came.Add(1); return false, nil }
	})
	for range 3 {
		nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, "PUT /webhdfs/v1/d?op=MKDIRS&user.name=root HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nabc")
	}
	testkit.Await(t, "the requests to be served", func() bool { return came.Load() == 3 })
	testkit.Await(t, "another one to be served", func() bool {
		resp, err := http.Get(s.url + prefix + "/?op=GETFILESTATUS&user.name=root")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
}

// TestListing: a directory of several pages is listed whole.
func TestListing(t *testing.T) {
	s := serve(t, nil)
	const many = 1203
	var all sync.WaitGroup
	c := s.as("root")
	for part := range 50 { // at once: they share commits
		all.Go(func() {
			for i := part; i < many; i += 50 {
				if err := c.MkdirAll(context.Background(), fmt.Sprintf("/d/%04d", i), 0o755); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, body := s.ask("GET", "/d", "op=LISTSTATUS"); strings.Count(body, `"pathSuffix"`) != many {
		t.Errorf("%d entries", strings.Count(body, `"pathSuffix"`))
	}
	if l, err := s.as("root").ReadDir(soon(t), "/d"); err != nil || len(l) != many {
		t.Errorf("%d entries in pages, %v", len(l), err)
	}
}

// untaken is an answer of which the client takes no more than the buffers on the way, until it is told to.
type untaken struct {
	header      http.Header
	given, most int // bytes: of all, and in one piece
	stuck, take chan struct{}
}

func (u *untaken) Header() http.Header { return u.header }
func (u *untaken) WriteHeader(int)     {}
func (u *untaken) Write(p []byte) (int, error) {
	if u.given <= onTheWay && u.given+len(p) > onTheWay {
		close(u.stuck)
		<-u.take
	}
	u.given, u.most = u.given+len(p), max(u.most, len(p))
	return len(p), nil
}

const onTheWay = 8 << 10

// TestAnswersThatNobodyTakes: a long answer takes no memory for its length while its client takes nothing, so clients that never do keep nobody from getting one.
func TestAnswersThatNobodyTakes(t *testing.T) {
	s := serve(t, nil)
	const blocks, clients = 2*blocksAtOnce + 3, 30
	if resp, body := s.send("PUT", "/d/f", "op=CREATE&data=true&blocksize=512&replication=1", strings.Repeat("x", 512*blocks)); resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status, body)
	}
	for i := range 70 {
		s.ask("PUT", fmt.Sprint("/d/", i), "op=MKDIRS")
	}
	take := make(chan struct{})
	var all []*untaken
	ended := make(chan any)
	for query, entry := range map[string]string{"/d/f?op=GET_BLOCK_LOCATIONS": `"startOffset"`, "/d/f?op=GETFILEBLOCKLOCATIONS": `"offset"`, "/d?op=LISTSTATUS": `"pathSuffix"`, "/d?op=LISTSTATUS_BATCH": `"pathSuffix"`} {
		want := blocks
		if strings.HasSuffix(entry, `Suffix"`) {
			want = 71
		}
		for range clients {
			u := &untaken{header: http.Header{}, stuck: make(chan struct{}), take: take}
			all = append(all, u)
			go func() {
				defer func() { ended <- recover() }()
				s.s.ServePassed(u, httptest.NewRequest("GET", prefix+query, nil), "root")
			}()
			<-u.stuck
		}
		path, op, _ := strings.Cut(query, "?")
		_, body := s.ask("GET", path, op)
		if n := strings.Count(body, entry); !json.Valid([]byte(body)) || n < want || n > want+1 { // the last block once more
			t.Errorf("%s: %d entries, want %d: %.200s", query, n, want, body)
		}
	}
	// What they have not taken was not made: it cannot be any more.
	if resp, body := s.ask("DELETE", "/d", "op=DELETE&recursive=true"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, body)
	}
	close(take)
	cut := 0
	for range all {
		if p := <-ended; p == http.ErrAbortHandler {
			cut++
		} else if p != nil {
			t.Error(p)
		}
	}
	if cut != 2*clients { // those about blocks
		t.Errorf("%d answers were cut off, want %d", cut, 2*clients)
	}
	for _, u := range all {
		if u.most > onTheWay {
			t.Fatalf("%d bytes of an answer were made at once", u.most)
		}
	}
}

// TestAnswers: those that no other test reads.
func TestAnswers(t *testing.T) {
	s := serve(t, nil)
	s.write("/f", "text")
	for query, want := range map[string]string{
		"GETHOMEDIRECTORY": `{"Path":"/user/root"}`, "GETTRASHROOT": `{"Path":"/user/root/.Trash"}`, "GETTRASHROOTS": `{"Paths":[]}`,
		"GETQUOTAUSAGE": `"fileAndDirectoryCount":1`, "LISTXATTRS": `{"XAttrNames":"[]"}`, "GETSTATUS": `"used":4`, "GETSERVERDEFAULTS": `"bytesPerChecksum":512`,
		"GETALLSTORAGEPOLICY": `"HOT"`, "GETSTORAGEPOLICY": `"HOT"`, "LISTSTATUS_BATCH": `"remainingEntries":0`,
		"GETCONTENTSUMMARY": `"ecPolicy":"Replicated"`, "GETECPOLICY": `null`, "GETECPOLICIES": `{"ErasureCodingPolicies":{"ErasureCodingPolicyInfo":[]}}`, "GETECCODECS": `{"ErasureCodingCodecs":{}}`,
		"GETDELEGATIONTOKEN": `{"Token":null}`, "GETSNAPSHOTTABLEDIRECTORYLIST": `{"SnapshottableDirectoryList":null}`,
	} {
		if resp, body := s.ask("GET", "/f", "op="+query); resp.StatusCode != 200 || !strings.Contains(body, want) || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v %s", query, resp.Status, body)
		}
	}
}

// TestWhoCalls: the kernel knows whose connection it is; nobody but root is somebody else.
func TestWhoCalls(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	s := serve(t, nil)
	for name, want := range map[string]int{"": http.StatusOK, "nobody": http.StatusOK, "root": http.StatusForbidden} {
		err := linux.AsUser(linux.Credentials{UID: 65534, GID: 65534}, func() error {
			c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				return err
			}
			defer c.Close()
			fmt.Fprintf(c, "GET /webhdfs/v1/?op=GETFILESTATUS&user.name=%s HTTP/1.0\r\n\r\n", name)
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err == nil && r.StatusCode != want {
				err = fmt.Errorf("%s, want %d", r.Status, want)
			}
			return err
		})
		if err != nil {
			t.Errorf("nobody as %q: %v", name, err)
		}
	}
}
