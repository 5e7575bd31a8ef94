package slowdisk

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Model is a disk with one head. HardDisk has the usual numbers; the zero value
// is of no use.
type Model struct {
	// Seek is the time to get to another place, and Rotation that until the data
	// come by there: half a turn on average. Both are added for every request that
	// does not begin where the last one ended.
	Seek     time.Duration `json:"seek_ns"`
	Rotation time.Duration `json:"rotation_ns"`
	// Bandwidth is in bytes per second.
	Bandwidth int64 `json:"bandwidth"`
	// ReadAhead is how far the kernel reads ahead of a sequential reader, bytes.
	ReadAhead int64 `json:"read_ahead"`
	// MaxRequest is the largest request, bytes; at most 1 MiB.
	MaxRequest int64 `json:"max_request"`
	// Slice is how many bytes in a row the head may serve before older requests
	// for other places, bytes. It decides how much several readers lose: HardDisk
	// has two requests, what a sequential reader has in the queue, with which
	// sixteen readers get about half of the bandwidth, as on the disks of veloxdfs,
	// figure 1 (70 of 156 MB/s).
	// Window is how far before the oldest request in its file another one goes
	// first, bytes.
	Slice  int64 `json:"slice"`
	Window int64 `json:"window"`
	// Lookahead is how long after the end of a request the drive itself reads on.
	Lookahead time.Duration `json:"lookahead_ns"`
	// WriteBack lets the page cache take up what is written and write it out later, in long
	// requests, as it does for a disk; else each write is one request, and takes its time at
	// once. A file that is closed is written out first.
	WriteBack bool `json:"write_back,omitempty"`
}

// HardDisk returns a disk of 7200 turns per minute.
func HardDisk() Model {
	return Model{
		Seek:       8 * time.Millisecond,
		Rotation:   4 * time.Millisecond,
		Bandwidth:  150e6,
		ReadAhead:  1 << 20,
		MaxRequest: maxRequest,
		Slice:      2 << 20,
		Window:     4 << 20,
		Lookahead:  time.Millisecond,
	}
}

const (
	maxRequest = 1 << 20
	page       = 4 << 10
)

// String returns a caption: every figure that comes from a model names it.
func (m Model) String() string {
	back := ""
	if m.WriteBack {
		back = ", written back"
	}
	return fmt.Sprintf("modelled disk (%s seek, %s rotation, %s MB/s, read-ahead %d KB%s)",
		milliseconds(m.Seek), milliseconds(m.Rotation),
		strconv.FormatFloat(float64(m.Bandwidth)/1e6, 'f', -1, 64), m.ReadAhead>>10, back)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + " ms"
}

// Service returns how long the head is busy with a request of n bytes.
func (m Model) Service(n int64, seek bool) time.Duration {
	// In whole nanoseconds, rounded up, so that n may be a terabyte.
	whole, rest := n/m.Bandwidth, n%m.Bandwidth
	t := time.Duration(whole)*time.Second + time.Duration((rest*int64(time.Second)+m.Bandwidth-1)/m.Bandwidth)
	if seek {
		t += m.Seek + m.Rotation
	}
	return t
}

// maxBandwidth keeps Service within the range of its integers.
const maxBandwidth = 9e9

// check says what is wrong with the parameters.
func (m Model) check() error {
	var wrong []string
	bad := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	bad(m.Seek < 0 || m.Seek > time.Minute, "a seek of %v: want 0 to 1m", m.Seek)
	bad(m.Rotation < 0 || m.Rotation > time.Minute, "a rotation of %v: want 0 to 1m", m.Rotation)
	bad(m.Bandwidth < 1e3 || m.Bandwidth > maxBandwidth, "a bandwidth of %d bytes/s: want 1 kB/s to 9 GB/s", m.Bandwidth)
	bad(m.ReadAhead < 0 || m.ReadAhead%page != 0 || m.ReadAhead > 1<<30, "a read-ahead of %d bytes: want 0 to 1 GiB in whole pages", m.ReadAhead)
	bad(m.MaxRequest < page || m.MaxRequest%page != 0 || m.MaxRequest > maxRequest, "requests of %d bytes: want 4 KiB to 1 MiB in whole pages", m.MaxRequest)
	bad(m.Slice < 0, "a slice of %d bytes", m.Slice)
	bad(m.Window < 0, "a window of %d bytes", m.Window)
	bad(m.Lookahead < 0, "a lookahead of %v", m.Lookahead)
	if len(wrong) > 0 {
		return fmt.Errorf("the modelled disk cannot have %s", strings.Join(wrong, ", or "))
	}
	return nil
}

// Slower returns a disk with as many seeks a second that transfers so many times less in
// between. With blocks that are as much smaller, reading one takes as long, and several
// readers lose as much of the bandwidth.
func (m Model) Slower(times int64) Model {
	m.Bandwidth /= times
	m.ReadAhead /= times
	m.MaxRequest /= times
	m.Slice /= times
	m.Window /= times
	return m
}

// Stats is what the head has done.
type Stats struct {
	// Requests, of which Seeks did not begin where the last one had ended.
	Requests, Seeks int64
	// Read and Written are bytes.
	Read, Written int64
	// Busy is the sum of the service times.
	Busy time.Duration
	// Buffered counts the files that were opened and could not be read with
	// O_DIRECT: their data went through the page cache of the directory below.
	Buffered int64
}

// Bytes returns how many were moved.
func (s Stats) Bytes() int64 { return s.Read + s.Written }

// Plus returns what two heads have done together.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		Requests: s.Requests + o.Requests,
		Seeks:    s.Seeks + o.Seeks,
		Read:     s.Read + o.Read,
		Written:  s.Written + o.Written,
		Busy:     s.Busy + o.Busy,
		Buffered: s.Buffered + o.Buffered,
	}
}

// Since returns what was done after an earlier moment.
func (s Stats) Since(then Stats) Stats {
	return Stats{
		Requests: s.Requests - then.Requests,
		Seeks:    s.Seeks - then.Seeks,
		Read:     s.Read - then.Read,
		Written:  s.Written - then.Written,
		Busy:     s.Busy - then.Busy,
		Buffered: s.Buffered - then.Buffered,
	}
}

// SeeksPer100MB returns how often the head went elsewhere for every 100 MB; NaN without
// any bytes.
func (s Stats) SeeksPer100MB() float64 { return float64(s.Seeks) / (float64(s.Bytes()) / 100e6) }
