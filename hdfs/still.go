package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// stillTimes are for how long a data node may do nothing while it is waited for.
type stillTimes struct {
	writing, reading time.Duration
	begun            func(*watch) // for tests, which say themselves when the time is over
}

// still are those of all requests.
var still = stillTimes{writing: 5 * time.Minute, reading: time.Minute}

// A stillError tells that a data node was given up that did nothing any more; node is its address, empty if there is no connection.
type stillError struct{ node string }

func (e *stillError) Error() string {
	return fmt.Sprintf("the data node %s does nothing any more, and was given up", e.node)
}

// A watch gives a data node up, and ends the request to it, when it does nothing for too long while it is waited for; how long whoever reads or writes
// takes does not matter.
type watch struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	most   time.Duration
	timer  *time.Timer
	node   atomic.Pointer[string] // an address without port, by which the name node knows it as well
}

func newWatch(ctx context.Context, most time.Duration) *watch {
	w := &watch{most: most}
	ctx, w.cancel = context.WithCancelCause(ctx)
	w.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if host, _, err := net.SplitHostPort(i.Conn.RemoteAddr().String()); err == nil {
			w.node.Store(&host)
		}
	}})
	w.timer = time.AfterFunc(most, w.giveUp)
	w.timer.Stop()
	if still.begun != nil {
		still.begun(w)
	}
	return w
}

// giveUp ends the request: the time is over.
func (w *watch) giveUp() {
	e := &stillError{}
	if node := w.node.Load(); node != nil {
		e.node = *node
	}
	w.cancel(e)
}

// wait watches while f waits for the data node.
func (w *watch) wait(f func() (int, error)) (int, error) {
	w.timer.Reset(w.most)
	n, err := f()
	w.timer.Stop()
	return n, w.why(err)
}

// why returns an error of the request, or that the data node was given up if that is where it comes from.
func (w *watch) why(err error) error {
	if e := (*stillError)(nil); err != nil && errors.As(context.Cause(w.ctx), &e) {
		return e
	}
	return err
}

// end ends the request, if it has not ended.
func (w *watch) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// A watchedWriter is what a data node takes.
type watchedWriter struct {
	*watch
	w io.Writer
}

func (w watchedWriter) Write(p []byte) (int, error) {
	return w.wait(func() (int, error) { return w.w.Write(p) })
}

// A watchedBody is what a data node sends.
type watchedBody struct {
	*watch
	io.ReadCloser
}

func (b watchedBody) Read(p []byte) (int, error) {
	return b.wait(func() (int, error) { return b.ReadCloser.Read(p) })
}

func (b watchedBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
