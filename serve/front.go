package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"headrace/internal/budget"
)

const (
	// bodyTime is how long a request may take to come in, answerTime how long what was
	// written of an answer may take to be fetched.
	bodyTime   = 30 * time.Second
	answerTime = time.Minute
	// smallAnswer is what may be written of an answer without being counted, in bytes: the number of requests bounds it.
	smallAnswer = 64 << 10
)

var refuser = connect.NewErrorWriter()

// Front stands before the services on a unix socket: it lets in what is within the
// budgets, and tells the rest why not. All fields but BodyTime and AnswerTime must be set.
type Front struct {
	Next http.Handler
	// Requests and Bytes are those that are not answered yet, Follows the answers
	// that go on until somebody has seen enough, which Followed names by their
	// procedures. Of the answers that grow with what a user has, in Listed, some are
	// made at a time; more of them wait in Lists. Answers are the bytes of all others that
	// were written and that nobody has fetched yet.
	Requests, Bytes, Follows, Answers *budget.Budget
	Lists                             budget.Slots[uint32]
	Followed, Listed                  map[string]bool
	// MaxRequest is the largest request, in bytes.
	MaxRequest int64
	// BodyTime is how long a request may take to come in; 0: 30 s. AnswerTime is how long what was written of an
	// answer, all of it but of those in Followed, may take to be fetched; 0: a minute.
	BodyTime, AnswerTime time.Duration
}

// Server serves what Peers accepts. What a connection may hold in the daemon's memory
// without a request that counts is small.
func (f *Front) Server(base context.Context) *http.Server {
	s := Server(f, base, 16<<10)
	s.ConnContext = withPeer
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: 32, MaxReceiveBufferPerConnection: 128 << 10, MaxReceiveBufferPerStream: 64 << 10,
	}
	return s
}

// Server serves HTTP 1 and 2, with TLS or without, to callers who may be of ill will.
// base is the context of all requests, maxHeader the most bytes of their headers.
func Server(h http.Handler, base context.Context, maxHeader int) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: protocols, BaseContext: func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: maxHeader,
	}
}

// Metrics serves what the collectors tell.
func Metrics(all ...prometheus.Collector) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(all...)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// ServeHTTP answers a request, or refuses it.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := r.Context().Value(peerKey{}).(*Peer)
	if !ok {
		f.no(w, r, connect.NewError(connect.CodeUnauthenticated, ErrNoCaller))
		return
	}
	if p.Refusal != nil {
		w.Header().Set("Connection", "close")
		f.no(w, r, p.Refusal)
		return
	}
	if err := p.Doubt(); err != nil {
		f.no(w, r, Coded(err))
		return
	}
	uid := p.Caller.UID
	if err := f.Requests.Take(uid, 1); err != nil {
		f.no(w, r, err)
		return
	}
	defer f.Requests.Give(uid, 1)
	if f.Followed[r.URL.Path] {
		if err := f.Follows.Take(uid, 1); err != nil {
			f.no(w, r, err)
			return
		}
		defer f.Follows.Give(uid, 1)
	}
	control := http.NewResponseController(w)
	answer := &answer{ResponseWriter: w, request: r, control: control, uid: uid, time: cmp.Or(f.AnswerTime, answerTime), goesOn: f.Followed[r.URL.Path], bytes: f.Answers}
	if f.Listed[r.URL.Path] {
		end, err := f.Lists.Begin(r.Context(), uid)
		if err != nil {
			return // it has gone
		}
		defer end()
		answer.bytes = nil // there are few of them
	}
	body := &body{ReadCloser: r.Body, bytes: f.Bytes, most: f.MaxRequest, uid: uid, control: control, time: cmp.Or(f.BodyTime, bodyTime)}
	defer body.release()
	if r.Body != http.NoBody {
		control.SetReadDeadline(time.Now().Add(body.time))
	}
	r.Body = body
	f.Next.ServeHTTP(answer, r)
}

// no refuses a request. What is too much only at a time may be asked for again.
func (f *Front) no(w http.ResponseWriter, r *http.Request, err error) {
	if errors.As(err, new(*budget.Refusal)) {
		w.Header().Set("Retry-After", "1")
	}
	if coded := new(connect.Error); !errors.As(err, &coded) {
		err = connect.NewError(connect.CodeResourceExhausted, err)
	}
	if refuser.IsSupported(r) {
		refuser.Write(w, r, err)
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
	most    int64
	control *http.ResponseController
	time    time.Duration
}

// Read reads, or says which limit was reached.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if b.read+int64(n) > b.most {
			return 0, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the request has more than %d bytes, which is the limit", b.most))
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

// answer bounds what of an answer waits in memory until it is fetched, and for how long.
type answer struct {
	http.ResponseWriter
	request *http.Request
	control *http.ResponseController
	bytes   *budget.Budget // nil: they are not counted
	uid     uint32
	time    time.Duration
	goesOn  bool // nothing may be written for long
	begun   bool
}

// Write implements http.ResponseWriter. It fails where too much waits already, which whoever asks is told if
// nothing was written before.
func (a *answer) Write(p []byte) (int, error) {
	if n := int64(len(p)); n > smallAnswer && a.bytes != nil {
		if err := a.bytes.Take(a.uid, n); err != nil {
			err := connect.NewError(connect.CodeResourceExhausted, err)
			if !a.begun {
				a.begun = true
				refuser.Write(a.ResponseWriter, a.request, err)
			}
			return 0, err
		}
		defer a.bytes.Give(a.uid, n)
	}
	a.begun = true
	defer a.within()()
	return a.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {
	defer a.within()()
	a.control.Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// within bounds how long is written from now on, until end if the answer goes on: a deadline that passes while nothing
// is written ends it, too.
func (a *answer) within() (end func()) {
	a.control.SetWriteDeadline(time.Now().Add(a.time))
	return func() {
		if a.goesOn {
			a.control.SetWriteDeadline(time.Time{})
		}
	}
}
