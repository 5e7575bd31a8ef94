package solo

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"

	"headrace/internal/budget"
	"headrace/serve"
	"headrace/wire/wireconnect"
)

// What the requests of one user, and of all users but root together, may hold of
// the daemon at a time, besides the bytes of Config.
const (
	maxRequestsPerUser, maxRequestsOthers = 512, 2048
	// Answers that go on until somebody has seen enough.
	maxFollowsPerUser, maxFollowsOthers = 128, 512
	// Answers that grow with what a user has; more of them wait.
	maxListsPerUser = 4
	// bodyTime is how long a request may take to come in, listTime how long such a
	// long answer may take to be fetched.
	bodyTime = 30 * time.Second
	listTime = time.Minute
)

// followed are the requests whose answers go on.
var followed = map[string]bool{
	wireconnect.TaskServiceWatchProcedure: true, wireconnect.TaskServiceLogsProcedure: true,
	wireconnect.DataServiceWatchWarmProcedure: true, wireconnect.DataServiceCacheProcedure: true,
	wireconnect.DataServiceDisksProcedure: true,
}

// listed are those whose answers grow.
var listed = map[string]bool{
	wireconnect.TaskServiceListProcedure: true, wireconnect.DataServiceListWarmProcedure: true,
	wireconnect.HostServiceApplicationProcedure: true,
}

// front stands before the API: it lets in what is within the budgets, and tells the
// rest why not.
type front struct {
	next                     http.Handler
	refuse                   *connect.ErrorWriter
	requests, bytes, follows *budget.Budget
	lists                    budget.Places
	bodyTime                 time.Duration
}

func newFront(next http.Handler, c *Config) *front {
	return &front{
		next: next, refuse: connect.NewErrorWriter(), bodyTime: bodyTime, lists: budget.Places{Most: maxListsPerUser},
		requests: budget.New("requests that are not answered yet", maxRequestsPerUser, maxRequestsOthers),
		bytes:    budget.New("bytes of requests that are not answered yet", c.UserRequestBytes, c.RequestBytes),
		follows:  budget.New("answers that go on (watch, logs -f, cache)", maxFollowsPerUser, maxFollowsOthers),
	}
}

// ServeHTTP answers a request, or refuses it.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := r.Context().Value(peerKey{}).(*peerConn)
	if !ok {
		f.no(w, r, connect.NewError(connect.CodeUnauthenticated, serve.ErrNoCaller))
		return
	}
	if p.refusal != nil {
		w.Header().Set("Connection", "close")
		f.no(w, r, p.refusal)
		return
	}
	uid := p.caller.UID
	if err := f.requests.Take(uid, 1); err != nil {
		f.no(w, r, err)
		return
	}
	defer f.requests.Give(uid, 1)
	if followed[r.URL.Path] {
		if err := f.follows.Take(uid, 1); err != nil {
			f.no(w, r, err)
			return
		}
		defer f.follows.Give(uid, 1)
	}
	control := http.NewResponseController(w)
	if listed[r.URL.Path] {
		end, err := f.lists.Begin(r.Context(), uid)
		if err != nil {
			return // it has gone
		}
		defer end()
		control.SetWriteDeadline(time.Now().Add(listTime))
	}
	body := &body{ReadCloser: r.Body, bytes: f.bytes, uid: uid, control: control, time: f.bodyTime}
	defer body.release()
	if r.Body != http.NoBody {
		control.SetReadDeadline(time.Now().Add(f.bodyTime))
	}
	r.Body = body
	f.next.ServeHTTP(w, r)
}

// no refuses a request.
func (f *front) no(w http.ResponseWriter, r *http.Request, err error) {
	if coded := new(connect.Error); !errors.As(err, &coded) {
		err = connect.NewError(connect.CodeResourceExhausted, err)
	}
	if f.refuse.IsSupported(r) {
		f.refuse.Write(w, r, err)
		return
	}
	http.Error(w, err.Error(), http.StatusTooManyRequests)
}

// body is that of a request. What is read of it counts until the request is
// answered, for it is kept that long, and must come in time.
type body struct {
	io.ReadCloser
	bytes   *budget.Budget
	uid     uint32
	read    int64
	control *http.ResponseController
	time    time.Duration
}

// Read reads, or says which limit was reached.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if b.read+int64(n) > maxRequest {
			return 0, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the request has more than %d bytes, which is the limit", int64(maxRequest)))
		}
		if err := b.bytes.Take(b.uid, int64(n)); err != nil {
			return 0, connect.NewError(connect.CodeResourceExhausted, err)
		}
		b.read += int64(n)
	}
	switch {
	case err == io.EOF:
		b.control.SetReadDeadline(time.Time{}) // whoever is answered for long may be silent
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("the request did not come in within %v", b.time))
	}
	return n, err
}

func (b *body) release() { b.bytes.Give(b.uid, b.read) }
