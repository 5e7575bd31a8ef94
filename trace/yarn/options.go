package yarn

import (
	"time"

	"headrace"
	"headrace/trace/workload"
)

// Options say what the records of YARN leave open.
type Options struct {
	// Queues gives the applications of a queue a priority, by its full path
	// (root.prod) or its last part (prod). Others have their own, up to
	// headrace.MaxPriority; where that is 0 they have Priority, nil:
	// headrace.Normal.
	Queues   map[string]headrace.Priority
	Priority *headrace.Priority
	// Zone is that of the times in logs. nil: found out from the summaries of
	// applications, which have both; without any it is UTC.
	Zone *time.Location
	workload.Assumed
}
