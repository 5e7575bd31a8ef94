package convert

import (
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace"
	"headrace/wire"
)

func TestAmounts(t *testing.T) {
	for _, c := range []struct{ is, want int64 }{{-1, 0}, {0, 0}, {7, 7}, {math.MaxInt64, 1 << 47}} {
		if got := Bytes(c.is); got != c.want {
			t.Errorf("%d bytes become %d; want %d", c.is, got, c.want)
		}
	}
	year := 365 * 24 * time.Hour
	for _, c := range []struct {
		is, amount float64
		seconds    time.Duration
	}{
		{-1, 0, 0}, {math.NaN(), 0, 0}, {0, 0, 0}, {1.5, 1.5, 1500 * time.Millisecond}, {math.Inf(1), 1e15, year}, {math.Inf(-1), 0, 0},
	} {
		if got := Amount(c.is); got != c.amount {
			t.Errorf("the amount %v becomes %v; want %v", c.is, got, c.amount)
		}
		if got := Seconds(c.is); got != c.seconds {
			t.Errorf("%v seconds become %v; want %v", c.is, got, c.seconds)
		}
	}
	for is, want := range map[uint32]headrace.Priority{0: headrace.Free, 11: 11, 12: 11, math.MaxUint32: 11} {
		if got := Priority(is); got != want {
			t.Errorf("priority %d becomes %d; want %d", is, got, want)
		}
	}
}

func TestThereAndBack(t *testing.T) {
	h := headrace.Hosting{Scheduler: "yarn", Application: "a", Queue: "q", Submitter: "s"}
	if got := Hosting(HostingMessage(h)); got != h {
		t.Errorf("%+v comes back as %+v", h, got)
	}
	fields, told := HostingMessage(h).ProtoReflect(), 0
	fields.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool { told++; return true })
	if all := fields.Descriptor().Fields().Len(); told != all { // the manager copies messages so
		t.Errorf("of %d fields of the message %d are told", all, told)
	}
	if got := Hosting(nil); got != (headrace.Hosting{}) {
		t.Errorf("no hosting is %+v", got)
	}
	s := headrace.StoreView{
		Name: "disk", Write: 1e8, Read: 2e8, DumpOverhead: time.Second, RestoreOverhead: 2 * time.Second, Free: 1 << 30, Queue: 3 * time.Second,
	}
	if got := StoreView(StoreMessage(s), 0); !reflect.DeepEqual(got, s) {
		t.Errorf("%+v comes back as %+v", s, got)
	}
	n := NodeView("n1", &wire.NodeInfo{
		Memory: 5, SwapFree: -1, SwapOut: 1, SwapIn: math.NaN(), Stores: []*wire.Store{StoreMessage(s), StoreMessage(s)},
	}, 2*time.Second)
	s.Queue = time.Second
	want := headrace.NodeView{ID: "n1", Memory: 5, SwapOut: 1, Stores: []headrace.StoreView{s, s}}
	if !reflect.DeepEqual(n, want) {
		t.Errorf("got  %+v\nwant %+v", n, want)
	}
	if queue := StoreView(StoreMessage(s), time.Hour).Queue; queue != 0 {
		t.Errorf("a queue that was long ago: %v", queue)
	}
}

func TestTaskView(t *testing.T) {
	for _, c := range []struct {
		name string
		is   *wire.Task
		want headrace.TaskView
	}{
		{"nothing measured", &wire.Task{Id: "c", Progress: -1}, headrace.TaskView{ID: "c", Progress: headrace.Progress{Share: -1}}},
		{"all of it", &wire.Task{
			Id: "c", Priority: 99, Cpus: 2, Memory: 10, Preemptions: 3, Held: true, NoSuspend: "s", NoCheckpoint: "c", Progress: 0.5, LostWall: 4,
			Usage:      &wire.Usage{Resident: 5, Swapped: 6, Dirty: -7, SinceSaveCpu: 1, SinceSaveWall: 2, Running: 3},
			Checkpoint: &wire.CheckpointInfo{Store: "disk", StoredBytes: 8, TotalBytes: 9},
		}, headrace.TaskView{
			ID: "c", Priority: headrace.MaxPriority, CPUs: 2, MemoryRequest: 10, Preemptions: 3, Held: true, NoSuspend: "s", NoCheckpoint: "c",
			Resident: 5, Swapped: 6, Checkpoint: &headrace.CheckpointView{Store: "disk", Bytes: 9},
			Progress: headrace.Progress{CPU: time.Second, Wall: 2 * time.Second, TotalWall: 3 * time.Second, Lost: 4 * time.Second, Share: 0.5},
		}},
		{"never saved: all its work is at stake", &wire.Task{
			Id: "c", Progress: math.NaN(), Usage: &wire.Usage{Running: 3, UserCpu: 1, SystemCpu: 1},
		}, headrace.TaskView{
			ID: "c", Progress: headrace.Progress{CPU: 2 * time.Second, Wall: 3 * time.Second, TotalWall: 3 * time.Second, Share: -1},
		}},
	} {
		c.want.State = headrace.Suspended
		if got := TaskView(c.is, headrace.Suspended); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
		}
	}
}
