package solo

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/internal/accept"
	"headrace/internal/budget"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/serve"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// largeAnswer is more than a connection takes in that nobody reads, in bytes.
const largeAnswer = 8 << 20

// large serves large answers behind a Front.
type large struct {
	*serve.Front
	t      *testing.T
	socket string
	// now is how many are being made, most how many were at a time. What has become of each is in ended.
	now, most atomic.Int64
	ended     chan error
}

func newLarge(t *testing.T, change func(*serve.Front)) *large {
	t.Helper()
	l := &large{t: t, socket: filepath.Join(t.TempDir(), "s"), ended: make(chan error, 100)}
	socket, err := net.Listen("unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}
	l.Front = newFront(l, &Config{UserRequestBytes: maxRequest, RequestBytes: maxRequest})
	change(l.Front)
	srv := l.Server(t.Context())
	go srv.Serve(serve.NewPeers(&accept.Listener{Listener: socket}, defaultUserConnections))
	t.Cleanup(func() { srv.Close() })
	return l
}

// ServeHTTP is what stands behind the Front.
func (l *large) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for n := l.now.Add(1); ; {
		if most := l.most.Load(); n <= most || l.most.CompareAndSwap(most, n) {
			break
		}
	}
	_, err := w.Write(make([]byte, largeAnswer))
	l.now.Add(-1)
	l.ended <- err
}

// ask asks, and reads nothing.
func (l *large) ask(path string) net.Conn {
	l.t.Helper()
	conn, err := net.Dial("unix", l.socket)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", path)
	return conn
}

// fetch asks, and reads everything.
func (l *large) fetch(client *http.Client, path string) (status int, body string) {
	l.t.Helper()
	res, err := client.Post(wire.BaseURL+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func (l *large) end() error {
	l.t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(patience):
		l.t.Fatal("an answer that nobody reads is written for ever")
		return nil
	}
}

// TestAnswersThatNobodyReads: a user has so many bytes of them; who asks for more is told so, and has an answer when others are gone.
func TestAnswersThatNobodyReads(t *testing.T) {
	l := newLarge(t, func(f *serve.Front) {
		f.AnswerTime = time.Hour
		f.Answers = budget.New("bytes of answers", largeAnswer, largeAnswer)
	})
	conn := l.ask("/x")
	testkit.Await(t, "the first to be written", func() bool { return l.Answers.Users() == 1 })
	for _, client := range []*http.Client{h2(l.socket), wire.NewHTTPClient(l.socket)} {
		if status, body := l.fetch(client, "/x"); status != http.StatusTooManyRequests || !strings.Contains(body, "resource_exhausted") || !strings.Contains(body, "bytes of answers") {
			t.Errorf("one more: %d, %.200s", status, body)
		}
		if err := l.end(); err == nil {
			t.Error("one more was written")
		}
	}
	conn.Close()
	if err := l.end(); err == nil {
		t.Error("the first was written though nobody has read it")
	}
	testkit.Await(t, "the bytes of the first", func() bool { return l.Answers.Users() == 0 })
	if status, body := l.fetch(wire.NewHTTPClient(l.socket), "/x"); status != http.StatusOK || len(body) != largeAnswer {
		t.Errorf("afterwards: %d, %d bytes", status, len(body))
	}
}

// TestLongAnswersInTurn: answers that may be long are made a few at a time, and who does not read them does not have them for ever.
func TestLongAnswersInTurn(t *testing.T) {
	for _, path := range []string{wireconnect.InputServicePlacesProcedure, wireconnect.TaskServiceGetProcedure, wireconnect.TaskServiceListProcedure} {
		l := newLarge(t, func(f *serve.Front) { f.AnswerTime = 50 * time.Millisecond })
		const n = 3 * maxListsPerUser
		for range n {
			l.ask(path)
		}
		for range n {
			if err := l.end(); err == nil {
				t.Errorf("%s was written though nobody has read it", path)
			}
		}
		if most := l.most.Load(); most > maxListsPerUser {
			t.Errorf("%s: %d were made at a time, want at most %d", path, most, maxListsPerUser)
		}
	}
}

// TestAnswersAreGivenUp: by HTTP/2, too, and also of those that go on.
func TestAnswersAreGivenUp(t *testing.T) {
	for _, path := range []string{"/x", wireconnect.TaskServiceWatchProcedure} {
		l := newLarge(t, func(f *serve.Front) { f.AnswerTime = 50 * time.Millisecond })
		res, err := h2(l.socket).Post(wire.BaseURL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := l.end(); err == nil {
			t.Errorf("%s was written though nobody has read it", path)
		}
		l.ask(path)
		if err := l.end(); err == nil {
			t.Errorf("%s was written by HTTP/1 though nobody has read it", path)
		}
	}
}

// TestLongCommandsAreShown: where many tasks are shown of each the beginning of its command, and a message of Watch stays small.
func TestLongCommandsAreShown(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.start()
	argv := append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", 1<<10)}, 64)...)
	const tasks = 40
	want := map[string]bool{}
	for range tasks {
		want[string(b.run(headrace.Low, held, func(q *wire.RunRequest) { q.Argv = argv }))] = true
	}
	short := func(where string, task *wire.Task) {
		t.Helper()
		if got := task.Argv; len(got) < 3 || len(got) > 10 || got[1] != argv[1] || !strings.HasSuffix(got[len(got)-1], " more)") {
			t.Errorf("%s: %d arguments of %s, the last is %.40q", where, len(got), task.Id, got[len(got)-1])
		}
	}
	list, err := b.tasks.List(b.ctx(), &wire.ListRequest{})
	if err != nil || len(list.Tasks) != tasks {
		t.Fatalf("%d tasks, %v", len(list.GetTasks()), err)
	}
	for _, task := range list.Tasks {
		short("list", task)
	}
	watch, err := b.tasks.Watch(b.ctx(), &wire.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	messages := 0
	for len(want) > 0 {
		if !watch.Receive() {
			t.Fatal(watch.Err())
		}
		messages++
		if n := proto.Size(watch.Msg()); n > watchBytes+2*maxShownArgv {
			t.Errorf("a message of %d tasks has %d bytes", len(watch.Msg().Tasks), n)
		}
		for _, task := range watch.Msg().Tasks {
			short("watch", task)
			delete(want, task.Id)
		}
	}
	if messages < 2 {
		t.Errorf("all in %d messages", messages)
	}
	id := list.Tasks[0].Id
	if task, err := b.tasks.Get(b.ctx(), &wire.GetRequest{Id: id}); err != nil || !slices.Equal(task.Argv, argv) {
		t.Errorf("get: %d arguments, %v", len(task.GetArgv()), err)
	}
	task, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	short("resume", task)
}
