package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/hdfs/hdfstest"
	"headrace/internal/testkit"
)

// testHDFS has small blocks, lists a few entries at a time, and lets its superuser act for
// alice.
var testHDFS = hdfstest.Shared{Properties: []string{
	"dfs.blocksize", strconv.Itoa(blockSize), "dfs.namenode.fs-limits.min-block-size", "1", "dfs.ls.limit", "3",
	"hadoop.proxyuser." + hdfstest.User + ".hosts", "*", "hadoop.proxyuser." + hdfstest.User + ".users", "alice",
}}

func TestMain(m *testing.M) {
	code := m.Run()
	testHDFS.Stop()
	os.Exit(code)
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// realClient has a directory of its own.
func realClient(t *testing.T) (c *Client, dir string) {
	t.Helper()
	c = newClient(t, Options{NameNodes: []string{testHDFS.Get(t).URL()}, User: hdfstest.User})
	dir = "/tests/" + t.Name()
	if err := c.MkdirAll(t.Context(), dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return c, dir
}

func create(ctx context.Context, c *Client, path, contents string) error {
	return c.Create(ctx, path, 0o640, func(w io.Writer) error {
		_, err := io.WriteString(w, contents)
		return err
	})
}

func read(t *testing.T, c *Client, path string) string {
	t.Helper()
	return testkit.Content(c.Open(t.Context(), path))(t)
}

// TestFiles does everything to a file once, and sees what is refused.
func TestFiles(t *testing.T) {
	c, dir := realClient(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	want := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", what, err, want)
		}
	}
	odd, moved := dir+"/100% a+b?&=#", dir+"/moved"
	must(create(ctx, c, odd, "hello"))
	if got := read(t, c, odd); got != "hello" {
		t.Errorf("read %q", got)
	}
	want("create again", create(ctx, c, odd, "other"), fs.ErrExist)
	failed := errors.New("failed")
	part := dir + "-part" // beside the directory that is listed below: it may come to be afterwards
	must(c.RemoveAll(ctx, part))
	want("a writer that fails", c.Create(ctx, part, 0o600, func(io.Writer) error { return failed }), failed)

	at := time.UnixMilli(1234567890123)
	must(c.SetModified(ctx, odd, at))
	must(c.Chmod(ctx, odd, 0o604))
	must(c.Rename(ctx, odd, moved))
	want("rename what is gone", c.Rename(ctx, odd, dir+"/x"), ErrRefused)
	_, err := c.Open(ctx, odd)
	want("open what is gone", err, fs.ErrNotExist)
	_, err = c.Stat(ctx, odd)
	want("look at what is gone", err, fs.ErrNotExist)
	_, err = c.ReadDir(ctx, odd)
	want("list what is gone", err, fs.ErrNotExist)

	must(create(ctx, c, odd, "other"))
	want("rename to what is there", c.Rename(ctx, odd, moved), ErrRefused)
	must(c.Replace(ctx, moved, odd))
	want("replace by what is gone", c.Replace(ctx, moved, odd), fs.ErrNotExist)
	must(c.Replace(ctx, odd, moved))
	if got := testkit.Content(c.OpenAt(ctx, moved, 2))(t); got != "llo" {
		t.Errorf("read %q", got)
	}

	must(c.MkdirAll(ctx, dir+"/below", 0o700))
	list, err := c.ReadDir(ctx, dir)
	if err != nil || len(list) != 2 || list[0].Name != "below" || !list[0].Dir || list[0].Mode != 0o700 {
		t.Errorf("%+v, %v", list, err)
	} else if want := (FileInfo{Name: "moved", Size: 5, Modified: at, Mode: 0o604, Owner: hdfstest.User}); list[1] != want {
		t.Errorf("%+v, want %+v", list[1], want)
	}
	if of, err := c.ReadDir(ctx, moved); err != nil || len(of) != 0 {
		t.Errorf("list a file: %+v, %v", of, err)
	}

	stranger := newClient(t, Options{NameNodes: c.o.NameNodes, User: "stranger"})
	_, err = stranger.ReadDir(ctx, dir+"/below")
	want("a stranger", err, fs.ErrPermission)
	want("a path that leads up", create(ctx, c, dir+"/../x", ""), errPath)
	want("a target that leads up", c.Rename(ctx, moved, "x"), errPath)
	if now, err := c.Now(ctx, dir); err != nil || time.Since(now).Abs() > time.Minute {
		t.Errorf("it is %v, %v", now, err)
	}
	must(c.RemoveAll(ctx, dir))
	must(c.RemoveAll(ctx, dir))
}

// TestOrder: in a directory of several parts names that are not ASCII come first.
func TestOrder(t *testing.T) {
	c, dir := realClient(t)
	for _, name := range []string{"a", "ü", "b", "ä", "c", "ö", "d"} {
		if err := create(t.Context(), c, dir+"/"+name, ""); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.ReadDir(t.Context(), dir)
	names := ""
	for _, f := range list {
		names += f.Name
	}
	if err != nil || names != "äöüabcd" {
		t.Errorf("%s, %v", names, err)
	}
}

// TestStandby: with several name nodes the active one is found, and one that is down
// does not matter.
func TestStandby(t *testing.T) {
	real, dir := realClient(t)
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"RemoteException":{"exception":"StandbyException","message":"Operation category READ is not supported in state standby"}}`)
	}))
	defer standby.Close()
	down := "http://" + testkit.Nobody(t)
	o := real.o
	o.NameNodes = []string{down, standby.URL, real.o.NameNodes[0]}
	c := newClient(t, o)
	if err := create(t.Context(), c, dir+"/x", "hello"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, c, dir+"/x"); got != "hello" {
		t.Errorf("read %q", got)
	}
	// One that stands still costs its part of the time, once.
	hangs := make(chan struct{})
	var asked atomic.Int32
	still := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1); <-hangs }))
	defer still.Close()
	defer close(hangs)
	active := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"FileStatus":{"type":"FILE","permission":"644"}}`)
	}))
	defer active.Close()
	o.NameNodes = []string{still.URL, active.URL}
	c = newClient(t, o)
	stat := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		of, err := c.Of(o.User)
		if err != nil {
			t.Fatal(err)
		}
		_, err = of.Stat(ctx, dir+"/x")
		return err
	}
	within := 5 * time.Second
	for err := stat(within); err != nil; err = stat(within) { // the machine may be so slow that the active one does not answer in the rest either
		if within *= 2; within > time.Minute {
			t.Fatal(err)
		}
	}
	once := asked.Load()
	for range 2 {
		if err := stat(time.Minute); err != nil {
			t.Error(err)
		}
	}
	if n := asked.Load(); once == 0 || n != once {
		t.Errorf("a name node that stands still was asked %d times, and %d times after it was passed over", once, n-once)
	}
	o.NameNodes = []string{down, standby.URL}
	if err := newClient(t, o).MkdirAll(t.Context(), dir, 0o700); err == nil || !strings.Contains(err.Error(), "StandbyException") {
		t.Errorf("without an active one: %v", err)
	}
}

func TestOptions(t *testing.T) {
	good := Options{NameNodes: []string{"http://127.0.0.1:1"}, User: "u"}
	for what, change := range map[string]func(*Options){
		"no name node":   func(o *Options) { o.NameNodes = nil },
		"not an address": func(o *Options) { o.NameNodes = []string{"namenode:9870"} },
		"no user":        func(o *Options) { o.User = "" },
		"user and more":  func(o *Options) { o.Kerberos = &Kerberos{Principal: "u@R", Keytab: "/none"} },
		"no principal":   func(o *Options) { o.User, o.Kerberos = "", &Kerberos{Principal: "u", Keytab: "/none"} },
		"no keytab":      func(o *Options) { o.User, o.Kerberos = "", &Kerberos{Principal: "u@R", Keytab: "/none"} },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

// TestToken: what a name node gives in the address of a data node goes into no error.
func TestToken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("delegation") {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"Location":"http://%s/webhdfs/v1/a?op=OPEN&delegation=SECRET"}`, r.Host)
	}))
	defer server.Close()
	_, err := newClient(t, Options{NameNodes: []string{server.URL + "/"}, User: "u"}).Open(t.Context(), "/a")
	if err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
}

// TestOpenAgain: a data node that answers once over its connection to a name node that was
// started anew is asked again, once.
func TestOpenAgain(t *testing.T) {
	refusals := 1
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("/webhdfs/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"Location":"%s/data"}`, server.URL)
	})
	mux.HandleFunc("/data", func(w http.ResponseWriter, _ *http.Request) {
		if refusals--; refusals >= 0 {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"RemoteException":{"exception":"EOFException","message":"End of File Exception between local host is: a; destination host is: b"}}`)
			return
		}
		fmt.Fprint(w, "hello")
	})
	c := newClient(t, Options{NameNodes: []string{server.URL}, User: "u"})
	if got := read(t, c, "/x"); got != "hello" {
		t.Errorf("read %q", got)
	}
	refusals = 2
	var remote *RemoteError
	if _, err := c.Open(t.Context(), "/x"); !errors.As(err, &remote) {
		t.Errorf("after two refusals: %v", err)
	}
}

// brokenHDFS is a name node and data node with one file, whose connections break off after so many bytes each.
func brokenHDFS(t *testing.T, contents string, bytes ...int) *Client {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/webhdfs/", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("op") == "GETFILESTATUS" {
			fmt.Fprintf(w, `{"FileStatus":{"type":"FILE","length":%d,"permission":"600"}}`, len(contents))
			return
		}
		fmt.Fprintf(w, `{"Location":"%s/data?offset=%s"}`, server.URL, r.FormValue("offset"))
	})
	var mu sync.Mutex
	mux.HandleFunc("/data", func(w http.ResponseWriter, r *http.Request) {
		offset, err := strconv.Atoi(r.FormValue("offset"))
		if err != nil {
			t.Error(err)
		}
		rest := contents[offset:]
		w.Header().Set("Content-Length", strconv.Itoa(len(rest)))
		mu.Lock()
		n := len(rest)
		if len(bytes) > 0 {
			n, bytes = bytes[0], bytes[1:]
		}
		mu.Unlock()
		io.WriteString(w, rest[:n])
		if n < len(rest) {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	return newClient(t, Options{NameNodes: []string{server.URL}, User: "u"})
}

// TestResume: what a connection that breaks off has not brought comes over the next ones.
func TestResume(t *testing.T) {
	const contents = "hello, world"
	pauses := []time.Duration{time.Millisecond, time.Millisecond}
	for what, c := range map[string]struct {
		bytes  []int
		pauses []time.Duration
		whole  bool
	}{
		"at once":               {nil, nil, true},
		"in three parts":        {[]int{3, 4}, nil, true},
		"one brings nothing":    {[]int{3, 0}, nil, false},
		"two bring nothing":     {[]int{0, 0, 5, 0, 0}, pauses, true},
		"too many bring little": {[]int{3, 0, 0, 0}, pauses, false},
	} {
		client := brokenHDFS(t, contents, c.bytes...)
		file, err := client.Stat(t.Context(), "/x")
		if err != nil {
			t.Fatal(err)
		}
		r := client.Resume(t.Context(), "/x", file, c.pauses...)
		b, err := io.ReadAll(r)
		r.Close()
		if whole := err == nil && string(b) == contents; whole != c.whole || err == nil && !whole {
			t.Errorf("%s: %q, %v", what, b, err)
		}
	}
}

// TestSemicolon: a name with a semicolon is one name.
func TestSemicolon(t *testing.T) {
	c, dir := realClient(t)
	ctx := t.Context()
	for name, contents := range map[string]string{"v=1": "short", "v=1;beta": "much longer"} {
		if err := c.MkdirAll(ctx, dir+"/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := create(ctx, c, dir+"/"+name+"/part;0", contents); err != nil {
			t.Fatal(err)
		}
		if st, err := c.Stat(ctx, dir+"/"+name+"/part;0"); err != nil || st.Size != int64(len(contents)) {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
		if got := read(t, c, dir+"/"+name+"/part;0"); got != contents {
			t.Errorf("%s: read %q", name, got)
		}
		if list, err := c.ReadDir(ctx, dir+"/"+name); err != nil || len(list) != 1 || list[0].Name != "part;0" {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	if list, err := c.ReadDir(ctx, dir); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := c.Rename(ctx, dir+"/v=1;beta/part;0", dir+"/v=1;beta/x;y"); err != nil {
		t.Error(err)
	}
	if got := read(t, c, dir+"/v=1;beta/x;y"); got != "much longer" {
		t.Errorf("renamed: read %q", got)
	}
}

// TestSemicolonIsQuoted: name nodes before Hadoop 3.5 take what follows one that is not for no part of the path, and answer about another file.
func TestSemicolonIsQuoted(t *testing.T) {
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _, _ = strings.Cut(r.RequestURI, "?")
		fmt.Fprint(w, `{"FileStatus":{"type":"FILE","permission":"644"}}`)
	}))
	defer s.Close()
	if _, err := newClient(t, Options{NameNodes: []string{s.URL}, User: "me"}).Stat(t.Context(), "/t/v=1;beta/a b"); err != nil {
		t.Fatal(err)
	}
	if want := "/webhdfs/v1/t/v=1%3Bbeta/a%20b"; asked != want {
		t.Errorf("%s is asked for, want %s", asked, want)
	}
}

// withStill is a client of a name node that answers as nameNode does, and of data nodes: one at /still that
// stands still after begin, and those that the test adds. over ends the time of the data node that was asked last, once it is waited for.
func withStill(t *testing.T, nameNode func(w http.ResponseWriter, r *http.Request, url string), begin func(w http.ResponseWriter, r *http.Request, over func())) (c *Client, mux *http.ServeMux, over func()) {
	t.Helper()
	was := still
	var asked atomic.Pointer[watch]
	still = stillTimes{time.Hour, time.Hour, asked.Store}
	over = func() {
		w := asked.Load()
		testkit.Await(t, "the data node to be waited for", w.timer.Stop)
		w.giveUp()
	}
	mux, ended := http.NewServeMux(), make(chan struct{})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		close(ended)
		server.Close()
		still = was
	})
	mux.HandleFunc("/webhdfs/", func(w http.ResponseWriter, r *http.Request) { nameNode(w, r, server.URL) })
	mux.HandleFunc("/still", func(w http.ResponseWriter, r *http.Request) {
		begin(w, r, over)
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	})
	return newClient(t, Options{NameNodes: []string{server.URL}, User: "u"}), mux, over
}

// TestStillReading: a data node that sends nothing any more, or does not answer, is given up, and what is missing comes from another one.
func TestStillReading(t *testing.T) {
	const contents = "hello, world"
	for what, head := range map[string]bool{"nothing any more": true, "not even an answer": false} {
		t.Run(what, func(t *testing.T) {
			c, mux, over := withStill(t, func(w http.ResponseWriter, r *http.Request, url string) {
				switch {
				case r.FormValue("op") == "GETFILESTATUS":
					fmt.Fprintf(w, `{"FileStatus":{"type":"FILE","length":%d,"permission":"600"}}`, len(contents))
				case r.FormValue("excludedatanodes") == "127.0.0.1":
					fmt.Fprintf(w, `{"Location":"%s/good?offset=%s"}`, url, r.FormValue("offset"))
				default:
					fmt.Fprintf(w, `{"Location":"%s/still"}`, url)
				}
			}, func(w http.ResponseWriter, _ *http.Request, over func()) {
				if !head {
					over()
					return
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(contents)))
				io.WriteString(w, contents[:5])
				w.(http.Flusher).Flush()
			})
			mux.HandleFunc("/good", func(w http.ResponseWriter, r *http.Request) {
				offset, err := strconv.Atoi(r.FormValue("offset"))
				if err != nil || (offset == 5) != head {
					t.Errorf("read on at %d, %v", offset, err)
				}
				io.WriteString(w, contents[offset:])
			})
			file, err := c.Stat(t.Context(), "/x")
			if err != nil {
				t.Fatal(err)
			}
			r := c.Resume(t.Context(), "/x", file, time.Millisecond)
			defer r.Close()
			b := make([]byte, len(contents))
			if head {
				if _, err := io.ReadFull(r, b[:5]); err != nil {
					t.Fatal(err)
				}
				b = b[5:]
				go over()
			}
			if n, err := io.ReadFull(r, b); err != nil || string(b) != contents[len(contents)-len(b):] {
				t.Errorf("%q, %v", b[:n], err)
			}
		})
	}
}

// TestStillWriting: a data node that takes nothing any more is given up, and one that does not answer.
func TestStillWriting(t *testing.T) {
	taken := false
	c, _, _ := withStill(t, func(w http.ResponseWriter, _ *http.Request, url string) {
		fmt.Fprintf(w, `{"Location":"%s/still"}`, url)
	}, func(_ http.ResponseWriter, r *http.Request, over func()) {
		if taken {
			io.Copy(io.Discard, r.Body)
		}
		over()
	})
	for _, bytes := range []int{1, 64 << 20} {
		taken = bytes == 1
		e := (*stillError)(nil)
		if err := create(t.Context(), c, "/x", strings.Repeat("x", bytes)); !errors.As(err, &e) || e.node != "127.0.0.1" {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}
