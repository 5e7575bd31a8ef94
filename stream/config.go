package stream

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/scan"
	"headrace/stream/source"
)

const (
	// DefaultBuffer is the shared memory of a scan, in bytes (veloxdfs, section
	// III.B).
	DefaultBuffer = 100 << 20
	// MinBuffer is the least that works with blocks of every size.
	MinBuffer = 8 * deal.MaxBlock
	// MaxConsumers bounds the consumers of a stream.
	MaxConsumers = 1024
	// maxLinks is how many connections an ordinary user may have, maxLinksOthers all
	// of them together.
	maxLinks, maxLinksOthers = 2 * MaxConsumers, 4 * MaxConsumers
	// maxHellos bounds the memory for lists of units that consumers of an ordinary user are
	// sending, in bytes: 4 for each unit, twice, and there may be a list of all that they may have.
	// maxHellosOthers bounds that of all ordinary users together.
	maxHellos, maxHellosOthers = 8*maxUserUnits + 1<<20, 1 << 30
	// maxUserUnits is how many units the streams of an ordinary user may have together:
	// 128 TiB of large files.
	maxUserUnits = 1 << 26
	// maxLists bounds the memory for the lists of files of a user's streams, in bytes, some three million
	// files; maxListsOthers that of all ordinary ones together.
	maxLists, maxListsOthers = 512 << 20, 4 * maxLists
	// fileCost is what a file takes beside its path.
	fileCost = 128
	// giveUpPause is after how long it is tried again to give an attempt up.
	giveUpPause = time.Second
)

// Errors that callers tell apart.
var (
	ErrUnknown = errors.New("no such stream")
	ErrExists  = errors.New("there is a stream with this name")
)

// errNoFiles says that there is nothing to deal; errRemoved is what consumers are told
// that come when nobody needs the stream.
var (
	errNoFiles = errors.New("there are no files to be read")
	errRemoved = errors.New("the stream was closed")
)

// Config says what an engine works with.
type Config struct {
	// Dir holds a directory for each stream; made if it is missing, mode 0700.
	Dir    string
	Source source.Source
	// NoResidentFirst deals files and blocks in their order only.
	NoResidentFirst bool
	// Memory bounds the buffers of all streams together, in bytes; 0: nothing does. A user
	// who has less than DefaultBuffer of it gets as much in any case.
	Memory int64
	// Read, if not nil, is told of every range that a consumer has been given and
	// has consumed. It must not block nor call the engine.
	Read func(stream, path string, r pagecache.Range)
	Log  *slog.Logger
}

// Spec is what a stream shall deal. It is inert and is written to the stream's
// directory.
type Spec struct {
	// ID names the stream; made up when empty. Safe as a file name.
	ID    string            `json:"id"`
	Owner linux.Credentials `json:"owner"`
	// Paths are absolute: files, directories, patterns (package fileset). An open stream has its
	// plan instead.
	Paths     []string  `json:"-"`
	Rule      deal.Rule `json:"rule"`
	Consumers int       `json:"consumers"`
	// Buffer is the shared memory of each scan, in bytes; 0: DefaultBuffer.
	Buffer int64 `json:"buffer,omitempty"`
}

func (s *Spec) check() error {
	if s.Consumers < 1 || s.Consumers > MaxConsumers {
		return fmt.Errorf("%d consumers: give from 1 to %d", s.Consumers, MaxConsumers)
	}
	if s.Buffer != 0 && s.Buffer < MinBuffer {
		return fmt.Errorf("a buffer of %d bytes is too small; give at least %d", s.Buffer, MinBuffer)
	}
	if s.ID != "" && (filepath.Base(s.ID) != s.ID || s.ID[0] == '.') {
		return fmt.Errorf("%q cannot name a stream", s.ID)
	}
	return s.Rule.Check()
}

func (s *Spec) buffer() int64 {
	if s.Buffer == 0 {
		return DefaultBuffer
	}
	return s.Buffer
}

// common is what all streams of an engine have in common.
type common struct {
	cfg Config
	// mu guards what follows, the streams and all bookkeeping of scans.
	mu     sync.Mutex
	scans  *scan.Set
	closed bool
}
