package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An archive that hangs, and cannot be interrupted, costs one container a little time,
// and those after it none for a while.
func TestArchiveHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		m := &Mover{Name: "nfs", Open: func(context.Context) (*Archive, error) {
			<-back
			return nil, errors.New("it is back")
		}}
		take := func() (string, time.Duration) {
			began := time.Now()
			_, err := m.Take(t.Context(), Parcel{Task: "c1"})
			if err == nil {
				t.Fatal("something was taken")
			}
			return err.Error(), time.Since(began)
		}
		if said, took := take(); took != lookTime || !strings.Contains(said, "nfs has not answered") {
			t.Errorf("the first: %v, after %v", said, took)
		}
		if said, took := take(); took != 0 || !strings.Contains(said, "asked again in 30s") {
			t.Errorf("the second: %v, after %v", said, took)
		}
		time.Sleep(lookPause)
		if said, took := take(); took != 0 || !strings.Contains(said, "has not answered for longer") {
			t.Errorf("after a pause: %v, after %v", said, took)
		}
		close(back)
		synctest.Wait()
		if said, took := take(); took != 0 || !strings.Contains(said, "it is back") {
			t.Errorf("when it is back: %v, after %v", said, took)
		}
	})
}
