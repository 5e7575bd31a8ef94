package data

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace/disk"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// oneSample returns the first sample that a client gets.
func oneSample(ctx context.Context, client wireconnect.DataServiceClient, interval float64) (*wire.DisksSample, error) {
	stream, err := client.Disks(ctx, &wire.DisksRequest{Interval: interval})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	if stream.Receive() {
		return stream.Msg(), nil
	}
	return nil, stream.Err()
}

func TestDisks(t *testing.T) {
	b := newBed(t)
	b.start()
	disks := func() []disk.Device {
		t.Helper()
		known, err := new(disk.Devices).Disks()
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	before := disks()
	s, err := oneSample(b.ctx(), b.client, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	after := disks()
	known := slices.DeleteFunc(before, func(d disk.Device) bool { return !slices.Contains(after, d) }) // others of this machine may come and go
	if s.Interval < 0.09 || s.AtMs == 0 {
		t.Errorf("interval %v at %d", s.Interval, s.AtMs)
	}
	got := map[string]*wire.Disk{}
	for _, d := range s.Disks {
		got[d.Name] = d
	}
	if len(known) == 0 && len(after) > 0 {
		t.Error("no disk has stayed what it was")
	}
	for _, d := range known {
		m := got[d.Name]
		if m == nil {
			t.Errorf("%s is missing", d.Name)
			continue
		}
		if m.Mount != d.Mount || m.Method != string(disk.Diskstats) || m.MethodWhy == "" || m.Seeks >= 0 || m.TotalRead < 0 {
			t.Errorf("%s: %v", d.Name, m)
		}
	}
	for _, interval := range []float64{-1, 0.01, math.NaN(), math.Inf(1), 1e6} {
		if _, err := oneSample(b.ctx(), b.client, interval); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("interval %v: %v", interval, err)
		}
	}
}

// sample returns what a watch tells first.
func sample(t *testing.T, w *diskWatch) *wire.DisksSample {
	t.Helper()
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	s, err := w.next()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReadersOfDisks has readers on a device that the meter knows nothing of.
func TestReadersOfDisks(t *testing.T) {
	meter, err := disk.NewMeter(disk.MeterOptions{NoBPF: true})
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	r := &reading{devices: &disk.Devices{}, disks: &disk.Scheduler{}}
	d := disk.Device{ID: 1 << 40, Name: "0:99", FSType: "fuse", Mount: "/mnt", Note: "it is a network"}
	first, second := r.disks.Reader(d, disk.Demand, "job x: y"), r.disks.Reader(d, disk.Warming, "w1")
	turn, err := first.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	turn.End(5)
	turn, err = second.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	turn.End(7)
	if turn, err = first.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer turn.End(0)
	for _, named := range []bool{true, false} {
		s := sample(t, &diskWatch{reading: r, meter: meter, named: named})
		m := s.Disks[len(s.Disks)-1]
		if m.Name != "0:99" || m.Mount != "/mnt" || m.Method != "" || m.MethodWhy != d.Note || len(m.Readers) != 2 {
			t.Fatalf("got %v", m)
		}
		if a, b := m.Readers[0], m.Readers[1]; a.Bytes != 7 || a.Class != "warming" || a.Reading || b.Bytes != 5 || b.Class != "demand" || !b.Reading {
			t.Errorf("readers %v", m.Readers)
		}
		if named != strings.Contains(m.Readers[1].Name, "job x") {
			t.Errorf("named %v: %v", named, m.Readers)
		}
	}
}

func TestMeterOpensOnce(t *testing.T) {
	opened := 0
	l := lazyMeter{open: func() (*disk.Meter, error) {
		if opened++; opened == 1 {
			return nil, os.ErrPermission
		}
		return disk.NewMeter(disk.MeterOptions{NoBPF: true})
	}}
	if err := l.close(); err != nil || opened != 0 {
		t.Errorf("closed unused: %v, opened %d times", err, opened)
	}
	if _, err := l.get(); err == nil {
		t.Error("the first failure is kept secret")
	}
	for range 3 {
		if _, err := l.get(); err != nil {
			t.Error(err)
		}
	}
	if opened != 2 {
		t.Errorf("opened %d times, want 2: one that failed, one that did not", opened)
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

// TestHangs: of a disk that does not answer is told since when, who hangs and who waits; names are for root.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter, err := disk.NewMeter(disk.MeterOptions{NoBPF: true})
		if err != nil {
			t.Fatal(err)
		}
		defer meter.Close()
		r := &reading{devices: &disk.Devices{}, disks: &disk.Scheduler{}}
		d := disk.Device{ID: 1 << 40, Name: "0:99", FSType: "fuse", Mount: "/mnt"}
		ctx, cancel := context.WithCancel(t.Context())
		for _, name := range []string{"a", "b", "c", "d", "e\xff", "f"} {
			go r.disks.Reader(d, disk.Demand, name).Begin(ctx)
			synctest.Wait()
		}
		if h := r.hangs(true); h != nil {
			t.Errorf("%v hangs", h)
		}
		began := time.Now()
		time.Sleep(2 * disk.Patience)
		synctest.Wait()
		for _, named := range []bool{true, false} {
			want := &wire.DiskHang{Disk: "0:99", Mount: "/mnt", SinceMs: began.UnixMilli(), Silent: true, Hanging: 2, Waiting: 4}
			if named {
				want.WhoHangs, want.WhoWaits = []string{"a", "b"}, []string{"c", "d", "e\uFFFD"}
			}
			s := sample(t, &diskWatch{reading: r, meter: meter, named: named})
			m := s.Disks[len(s.Disks)-1]
			if !proto.Equal(m.Hang, want) || m.Readers[0].Hangs != 60 || s.Disks[0].Hang != nil && len(s.Disks) > 1 {
				t.Errorf("it is told %v, want %v; %v", m.Hang, want, m.Readers)
			}
			if h := r.hangs(named); len(h) != 1 || !proto.Equal(h[0], want) {
				t.Errorf("it is told %v, want %v", h, want)
			}
		}
		r.others = func() []disk.Hang {
			return []disk.Hang{{Device: disk.Device{Name: "sdb", Mount: "/srv"}, Since: began, Silent: true, Hanging: []string{"blocks"}}}
		}
		if h := r.hangs(true); len(h) != 2 || h[1].Disk != "sdb" || h[1].WhoHangs[0] != "blocks" {
			t.Errorf("with what others wait for it is told %v", h)
		}
		cancel()
	})
}
