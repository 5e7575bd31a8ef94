package serve

import (
	"context"
	"testing"

	"connectrpc.com/connect"
)

type ofApplication struct{ name string }

func (q *ofApplication) GetApplication() string { return q.name }

type ofJobs struct{ names []string }

func (q *ofJobs) GetJobs() []string { return q.names }

// TestApplications: an application that has many requests answered gets no more of them, and all others do.
func TestApplications(t *testing.T) {
	a := NewApplications(2)
	entered, leave := make(chan struct{}), make(chan struct{})
	wait := a.WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		entered <- struct{}{}
		<-leave
		return nil, nil
	})
	none := a.WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) { return nil, nil })
	as := func(uid uint32) context.Context { return WithCaller(t.Context(), Caller{UID: uid}) }
	left := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := wait(as(1), connect.NewRequest(&ofApplication{"hog"}))
			left <- err
		}()
		<-entered
	}
	try := func(what string, uid uint32, q connect.AnyRequest, want connect.Code) {
		t.Helper()
		_, err := none(as(uid), q)
		if err = Coded(err); err != nil && connect.CodeOf(err) != want || err == nil && want != 0 {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	try("one more of the application", 1, connect.NewRequest(&ofApplication{"hog"}), connect.CodeResourceExhausted)
	try("the same as a job", 1, connect.NewRequest(&ofJobs{[]string{"hog"}}), connect.CodeResourceExhausted)
	try("several jobs", 1, connect.NewRequest(&ofJobs{[]string{"hog", "other"}}), 0)
	try("another application", 1, connect.NewRequest(&ofApplication{"other"}), 0)
	try("one of that name of another user", 2, connect.NewRequest(&ofApplication{"hog"}), 0)
	try("a request that is of none", 1, connect.NewRequest(&ofApplication{}), 0)
	close(leave)
	for range 2 {
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
	try("when it has its answers", 1, connect.NewRequest(&ofApplication{"hog"}), 0)
	if n, owners := a.open.Taken(); n != 0 || owners != 0 {
		t.Errorf("%d requests of %d applications are left", n, owners)
	}
}
