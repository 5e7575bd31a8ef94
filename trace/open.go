package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OpenOptions say how a workload is made of a trace. The zero value is fine.
type OpenOptions struct {
	// Seed and Scale are for synthetic traces: what chance begins with, and times as
	// many jobs; 0: 1.
	Seed  uint64
	Scale float64
	// From and For are the window of the trace: only tasks submitted at From or
	// later and before From+For are kept, and Submit counts from From. For 0: all
	// from From on.
	From, For time.Duration
	// MaxTasks is how many tasks Open makes at most; more are an error. 0:
	// DefaultMaxTasks.
	MaxTasks int

	Google GoogleOptions
	Swim   SwimOptions
	Yarn   YarnOptions

	// Progress, if not nil, is called now and then, from the goroutine that calls
	// Open.
	Progress func(Progress)
}

// DefaultMaxTasks takes about 1 GB when a workload is held, and for a moment twice
// as much.
const DefaultMaxTasks = 10_000_000

// Progress is how far the reading of a trace has come.
type Progress struct {
	// Read are the bytes read, as they are stored, of Total; 0: not known.
	Read, Total int64
	// Records are the lines, events, jobs or containers read.
	Records int64
}

// Sources are the forms of Open's source, for help texts.
func Sources() []string {
	return []string{"google2011:DIR", "swim:FILE", "swim:facebook-day", "csv:FILE", "yarn:PATH", "synthetic:google-day", "synthetic:FILE"}
}

// Open is the workload of a trace:
//
//	google2011:DIR        clusterdata-2011-2 as published: DIR/task_events/part-*.csv.gz
//	swim:FILE             jobs in the format of SWIM; FILE may end in .gz
//	swim:facebook-day     FacebookDay
//	csv:FILE              ReadCSV; FILE may end in .gz
//	yarn:PATH             applications and containers: a file or a directory
//	synthetic:google-day  a day like Google's, generated
//	synthetic:FILE        the same with the parameters in FILE
//
// It holds about a hundred bytes for each task, twice that before it returns. When
// ctx ends it returns its error.
func Open(ctx context.Context, source string, o OpenOptions) (*Workload, error) {
	kind, rest, ok := strings.Cut(source, ":")
	if !ok || rest == "" {
		return nil, unknownSource(source)
	}
	switch kind {
	case "google2011", "swim", "csv", "yarn", "synthetic":
		return nil, errors.New("trace: not written yet")
	}
	return nil, unknownSource(source)
}

func unknownSource(source string) error {
	return fmt.Errorf("trace %q: want one of %s", source, strings.Join(Sources(), ", "))
}
