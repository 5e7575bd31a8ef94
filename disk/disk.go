package disk

import (
	"context"
	"os"
	"time"
)

// ID names a device: its number as in stat(2), of the whole disk where a
// partition was asked about.
type ID uint64

// Device is one disk, or what stands for one (a network or FUSE file system has
// an anonymous device of its own).
type Device struct {
	ID ID
	// Name is the kernel's ("vda", "loop0") or "0:57" for an anonymous one.
	Name string
	// Mount and FSType are of the file system that was asked about.
	Mount, FSType string
	// Rotational devices seek. Those that do not say count as rotational.
	Rotational bool
	// Memory: the files live in memory (tmpfs); turns are granted at once.
	Memory bool
}

// Class is how urgent a reader is.
type Class uint8

const (
	// Demand: somebody waits for the data.
	Demand Class = iota
	// Warming: somebody will want it later. It gets a turn when no demand waits.
	Warming
)

// Devices finds devices. The zero value works; it remembers what it found.
type Devices struct{ cache deviceCache }

// Scheduler lets one reader at a time read a device. Demand goes before
// warming, and inside a class the reader that has read least of late. Its
// methods may be called from any goroutine.
type Scheduler struct{ state schedulerState }

// Reader is one sequence of reads on one device.
type Reader struct{ readerState }

// Turn is the right to read one extent.
type Turn struct{ turnState }

// Use is what one reader has done.
type Use struct {
	Name   string
	Class  Class
	Bytes  int64
	Turns  int64
	Waited time.Duration
	// Reading and Waiting say what it does now.
	Reading, Waiting bool
}

var _ = []any{
	(*Devices).Of, (*Scheduler).Reader, (*Reader).Begin, (*Turn).End, (*Scheduler).Uses, (*Reader).Close,
}

// Of is the device that f is on.
func (d *Devices) Of(f *os.File) (Device, error) { panic("not yet") }

// Reader registers a reader. The name is for people ("job 12: access.log").
func (s *Scheduler) Reader(d Device, c Class, name string) *Reader { panic("not yet") }

// Begin waits for a turn. The holder reads at most about Extent bytes and calls
// End; a reader that goes on where its last turn ended, while nobody else
// waits, gets the next turn at once.
func (r *Reader) Begin(ctx context.Context) (*Turn, error) { panic("not yet") }

// End gives the turn back and says how much was read. Later calls do nothing.
func (t *Turn) End(bytes int64) { panic("not yet") }

// Close takes the reader off the list. It must not have a turn.
func (r *Reader) Close() { panic("not yet") }

// Uses lists the readers of each device, open ones and the totals of closed ones.
func (s *Scheduler) Uses() map[ID][]Use { panic("not yet") }

// Extent is how many bytes a turn on the device should be: long enough that a
// seek does not matter.
func (d Device) Extent() int64 { return 32 << 20 }

type (
	deviceCache    struct{}
	schedulerState struct{}
	readerState    struct{}
	turnState      struct{}
)
