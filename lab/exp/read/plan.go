package read

import (
	"fmt"
	"time"

	"headrace/lab/rig"
	"headrace/lab/work"
)

// Case is what is read, and by whom.
type Case struct {
	Part string `json:"part"`
	// Jobs at a time, each with so many consumers at a time.
	Jobs      int `json:"jobs"`
	Consumers int `json:"consumers"`
}

// Parts of the experiment.
const (
	// partConsumers: one job reads a large file (veloxdfs, figures 1 and 4).
	partConsumers = "consumers"
	// partOwn: jobs read files of their own (figure 8).
	partOwn = "own"
	// partShared: jobs that are submitted at once read one file.
	partShared = "shared"
	// partSpread: jobs that are submitted over the time that one of them takes do.
	partSpread = "spread"
	// partSlow: one job reads a file, and one consumer is slow (figure 5).
	partSlow = "slow"
)

// Parts are the names that Options.Only takes.
var Parts = []string{partConsumers, partOwn, partShared, partSpread, partSlow}

// readers returns how many there are: "4 jobs", "1 consumer".
func (c Case) readers() string {
	n, what := c.Jobs, "job"
	if c.Part == partConsumers || c.Part == partSlow {
		n, what = c.Consumers, "consumer"
	}
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (c Case) String() string {
	return c.readers() + map[string]string{
		partConsumers: " of one file",
		partOwn:       " on files of their own",
		partShared:    " at once on one file",
		partSpread:    " one after another on one file",
		partSlow:      ", one of them slow",
	}[c.Part]
}

// Sizes is how much is read at a place. Sizes are bytes.
type Sizes struct {
	Place string `json:"place"`
	About string `json:"about"`
	// Large is the file of one job, Own that of each of several jobs, Shared one for
	// all of them and for the slow consumer.
	Large  int64 `json:"large"`
	Own    int64 `json:"own"`
	Shared int64 `json:"shared"`
	Region int64 `json:"region"`
	// Cache is how much of a shared file memory holds: the files of the paper are
	// many times larger than memory.
	Cache int64 `json:"cache"`
	// Plain is the speed of cat before the experiment, bytes per second.
	Plain float64 `json:"plain"`
	// Alone is how long one job with own regions takes for the shared file, seconds.
	// Jobs that come one after another are spread over that time.
	Alone float64 `json:"alone"`
	// Slow is the rate of the slow consumer, bytes per second.
	Slow int64 `json:"slow"`
}

// readPlan is the cases and the sizes.
type readPlan struct {
	cases []Case
	sizes Sizes
}

const (
	// hdfsBlock is what a task of HDFS reads.
	hdfsBlock = 128 << 20
	// jobConsumers each job has where there are several jobs.
	jobConsumers = 2
)

// planRead chooses them.
func (o *Options) planRead(place string) readPlan {
	consumers, jobs, spread, slow := []int{1, 4, 8, 16}, []int{1, 2, 4, 8}, []int{2, 8}, 8
	z := Sizes{Place: place, Large: 2 << 30, Own: 256 << 20, Shared: 1 << 30, Region: hdfsBlock}
	if place == rig.Device {
		z.Large, z.Own, z.Shared = 4<<30, 1<<30, 4<<30
	}
	if o.Quick {
		consumers, jobs, spread, slow = []int{4}, []int{1, 2}, []int{2}, 4
		z.Large, z.Own, z.Shared, z.Region = 32<<20, 16<<20, 32<<20, 8<<20
	}
	z.Cache = max(z.Shared/16, leastCache)
	p := readPlan{sizes: z}
	add := func(part string, jobs, consumers int) {
		for _, chosen := range o.Only {
			if chosen == part {
				p.cases = append(p.cases, Case{part, jobs, consumers})
			}
		}
	}
	for _, n := range consumers {
		add(partConsumers, 1, n)
	}
	for _, n := range jobs {
		add(partOwn, n, jobConsumers)
		add(partShared, n, jobConsumers)
	}
	for _, n := range spread {
		add(partSpread, n, jobConsumers)
	}
	add(partSlow, 1, slow)
	return p
}

// bytes returns the room for all files.
func (p readPlan) bytes() int64 {
	own := 0
	for _, c := range p.cases {
		if c.Part == partOwn {
			own = max(own, c.Jobs)
		}
	}
	return p.sizes.Large + p.sizes.Shared + int64(own)*p.sizes.Own
}

// readFiles are the files at a place.
type readFiles struct {
	large, shared work.RecordFile
	own           []work.RecordFile
}

func (p readPlan) makeFiles(d *rig.Disk) (f readFiles, err error) {
	first := uint32(0)
	make := func(name string, bytes int64) (r work.RecordFile) {
		if err == nil {
			r, err = d.MakeRecords(name, bytes, first)
			first += uint32(bytes / work.RecordBytes)
		}
		return r
	}
	f.large = make("large", p.sizes.Large)
	f.shared = make("shared", p.sizes.Shared)
	for _, c := range p.cases {
		for c.Part == partOwn && len(f.own) < c.Jobs && err == nil {
			f.own = append(f.own, make(fmt.Sprintf("own%d", len(f.own)), p.sizes.Own))
		}
	}
	return f, err
}

// jobs returns those of a case.
func (p readPlan) jobs(c Case, f readFiles) []readJob {
	jobs := make([]readJob, c.Jobs)
	for i := range jobs {
		j := readJob{file: f.shared, consumers: c.Consumers}
		switch c.Part {
		case partConsumers:
			j.file = f.large
		case partOwn:
			j.file = f.own[i]
		case partSpread:
			j.after = time.Duration(p.sizes.Alone * float64(i) / float64(c.Jobs) * float64(time.Second))
		case partSlow:
			j.slow = p.sizes.Slow
		}
		jobs[i] = j
	}
	return jobs
}

// limit returns how much memory the processes of a run may have, what they read
// included; 0: any.
func (p readPlan) limit(c Case, method string) int64 {
	if c.Part != partShared && c.Part != partSpread {
		return 0
	}
	tasks := int64(c.Jobs * c.Consumers)
	if method == methodStream {
		return p.sizes.Cache + streamMemory + tasks*streamTaskMemory
	}
	return p.sizes.Cache + tasks*regionMemory
}

// What processes need themselves, as was measured: a consumer, the daemon with its
// buffer of 100 MB, and a task with its supervisor and its end of the stream.
const (
	regionMemory     = 4 << 20
	leastCache       = 8 << 20 // with less, a small run is ended by the kernel
	streamMemory     = 128 << 20
	streamTaskMemory = 9 << 20
)
