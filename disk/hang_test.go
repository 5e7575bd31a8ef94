package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headrace/disk"
	"headrace/internal/testkit"
)

// crowd has n readers wait for turns that never end.
func crowd(t *testing.T, s *disk.Scheduler, n int) (turns chan *disk.Turn, leave func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	turns = make(chan *disk.Turn, n)
	for i := range n {
		go func() {
			if turn, err := s.Reader(sda, disk.Demand, fmt.Sprint("r", i)).Begin(ctx); err == nil {
				turns <- turn
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
	}
	return turns, leave
}

// On a device that is wholly dead two readers hang, and then one more each time when the silence has doubled; others
// wait, and other devices are read. When anything comes of any of them all go on.
func TestWhollyDeadDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		began := time.Now()
		turns, leave := crowd(t, &s, 40)
		alive := s.Reader(disk.Device{ID: 0x810, Name: "sdb"}, disk.Demand, "alive")
		stuck := []*disk.Turn{<-turns}
		var when []time.Duration
		for time.Since(began) < 24*time.Hour {
			time.Sleep(disk.Patience / 2)
			begin(t, alive).End(extent)
			for turn := granted(turns); turn != nil; turn = granted(turns) {
				stuck, when = append(stuck, turn), append(when, time.Since(began))
			}
		}
		if len(stuck) > 13 {
			t.Errorf("%d readers hang after a day: %v", len(stuck), when)
		}
		want := []time.Duration{disk.Patience, 4 * disk.Patience, 10 * disk.Patience, 22 * disk.Patience}
		if len(when) < len(want) || !reflect.DeepEqual(when[:len(want)], want) {
			t.Fatalf("others have tried after %v, want %v", when, want)
		}
		h := s.Hangs()
		if len(h) != 1 || h[0].ID != sda.ID || !h[0].Silent || !h[0].Since.Equal(began) || len(h[0].Hanging) != len(stuck) ||
			len(h[0].Waiting) != 40-len(stuck) || h[0].Hanging[0] != "r0" {
			t.Errorf("%+v", h)
		}

		stuck[0].Progress()
		next := granted(turns)
		if next == nil || granted(turns) != nil {
			t.Fatal("when something comes not one goes on")
		}
		for range 10 {
			next.End(extent)
			if next = granted(turns); next == nil {
				t.Fatal("they do not go on one after the other")
			}
		}
		for _, turn := range stuck[1:] {
			turn.End(0)
		}
		next.End(0)
		leave()
		synctest.Wait()
		if h := s.Hangs(); len(h) != 0 {
			t.Errorf("it hangs still: %+v", h)
		}
	})
}

// A reader that hangs at a place of its own is passed by, and others read there as ever.
func TestOneBadPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		stuck := begin(t, s.Reader(sda, disk.Demand, "stuck"))
		d, w := s.Reader(sda, disk.Demand, "d"), s.Reader(sda, disk.Warming, "w")
		began := time.Now()
		first, warming := later(t, d), later(t, w)
		time.Sleep(disk.Patience)
		turn := granted(first)
		if turn == nil || granted(warming) != nil {
			t.Fatal("not one reader tries, or not that of demand")
		}
		turn.Progress()
		turn.End(extent)
		for range 10 {
			begin(t, d).End(extent)
		}
		time.Sleep(linger)
		if turn = granted(warming); turn == nil {
			t.Fatal("warming waits for what hangs")
		}
		turn.End(extent)
		if h := s.Hangs(); len(h) != 1 || h[0].Silent || len(h[0].Waiting) > 0 || !reflect.DeepEqual(h[0].Hanging, []string{"stuck"}) || !h[0].Since.Equal(began) {
			t.Errorf("%+v", h)
		}
		stuck.End(0)
	})
}

// Who has its turn and reads nothing tells nothing of the disk: the next one tries at once.
func TestTriesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s disk.Scheduler
		stuck := begin(t, s.Reader(sda, disk.Demand, "stuck"))
		turns, leave := crowd(t, &s, 3)
		defer leave()
		time.Sleep(disk.Patience)
		granted(turns).End(0)
		last := granted(turns)
		if last == nil || granted(turns) != nil || !s.Hangs()[0].Silent {
			t.Fatal("the next one does not try alone")
		}
		time.Sleep(disk.Patience)
		if granted(turns) != nil {
			t.Error("a third one tries soon")
		}
		last.End(0) // it was answered
		granted(turns).End(0)
		stuck.End(0)
	})
}

// Who waits for a device that is silent can leave, and hears why it waited.
func TestLeaveSilentDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := disk.Scheduler{Log: slog.New(slog.NewTextHandler(&log, nil))}
		defer begin(t, s.Reader(sda, disk.Demand, "first")).End(0)
		second := later(t, s.Reader(sda, disk.Demand, "second"))
		time.Sleep(2 * disk.Patience)
		defer granted(second).End(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Reader(sda, disk.Demand, "third").Begin(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "sda, which has not answered since") {
			t.Errorf("it heard %v", err)
		}
		if n := strings.Count(log.String(), "does not answer"); n != 2 || !strings.Contains(log.String(), "reader=second") {
			t.Errorf("the log says\n%s", &log)
		}
	})
}

// A move that takes far too long is not waited for, and stands among what hangs until it ends.
func TestOverdueMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := disk.Scheduler{Log: slog.New(slog.NewTextHandler(&log, nil))}
		began := time.Now()
		r := s.Move(0, sda, disk.Dump, "dump of t1", time.Minute)
		turn := begin(t, r)
		waits := later(t, s.Move(0, sda, disk.Dump, "dump of t2", time.Minute))
		last := later(t, s.Move(0, sda, disk.Dump, "dump of t3", time.Minute))
		const overdue = 90*time.Second + 4*time.Minute
		time.Sleep(overdue - 1)
		if granted(waits) != nil || len(s.Hangs()) > 0 || s.Uses()[sda.ID][0].Hangs != 0 {
			t.Error("it is not waited for though it may take so long")
		}
		time.Sleep(time.Nanosecond)
		next := granted(waits)
		if next == nil || granted(last) != nil {
			t.Fatal("not one goes on beside it")
		}
		if h := s.Hangs(); len(h) != 1 || h[0].Silent || !reflect.DeepEqual(h[0].Hanging, []string{"dump of t1"}) || !h[0].Since.Equal(began) || s.Uses()[sda.ID][0].Hangs != overdue {
			t.Errorf("%+v, %+v", h, s.Uses())
		}
		if !strings.Contains(log.String(), `what="dump of t1" disk=sda`) || !strings.Contains(log.String(), "expected=1m0s") {
			t.Errorf("the log says\n%s", &log)
		}
		begin(t, s.Reader(sda, disk.Demand, "d")).End(extent) // no matter of the disk's
		turn.End(1 << 30)
		r.Close()
		if granted(last) != nil {
			t.Error("its end has ended another's turn")
		}
		next.End(1)
		granted(last).End(1)
		if u := s.Uses()[sda.ID]; u[len(u)-1].Bytes != 1<<30 || len(s.Hangs()) > 0 {
			t.Errorf("%+v, %+v", u, s.Hangs())
		}
	})
}

// TestSilentServer: of many who read from a file server that does not answer few have a thread each in the kernel, and when
// it fails all of them hear of it.
func TestSilentServer(t *testing.T) {
	dir := t.TempDir()
	fail := testkit.SilentFS(t, dir)
	const readers, patience = 30, 50 * time.Millisecond
	s := disk.Impatient(patience)
	dev := disk.Device{ID: 1 << 40, Name: "0:99", Mount: dir, FSType: "fuse"}
	var inside, failed atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			r := s.Reader(dev, disk.Demand, fmt.Sprint("r", i))
			defer r.Close()
			turn, err := r.Begin(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer turn.End(0)
			inside.Add(1)
			defer inside.Add(-1)
			if _, err := os.Open(filepath.Join(dir, "file")); err != nil {
				failed.Add(1)
			}
		})
	}
	testkit.Await(t, "five to hang", func() bool { h := s.Hangs(); return len(h) == 1 && len(h[0].Hanging) >= 5 })
	n := inside.Load()
	most := int64(2) // tries double the silence, which was patience long at first
	for d := 2 * patience; d < time.Since(began); d *= 2 {
		most++
	}
	if n > most {
		t.Errorf("%d are in the kernel, want at most %d", n, most)
	}
	fail()
	all.Wait()
	if n := failed.Load(); n != readers || len(s.Hangs()) > 0 {
		t.Errorf("%d of %d have heard that it failed; %+v", n, readers, s.Hangs())
	}
}
