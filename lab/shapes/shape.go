package shapes

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"headrace"
	"headrace/report"
	"headrace/sim"
	"headrace/trace/workload"
)

// Half is one of the two that the shapes are in.
type Half string

// Looked may be looked at to find what is wrong, Judged is only to judge.
const (
	Looked Half = "A"
	Judged Half = "B"
)

// Shape is a kind of work, and the cluster that it is made for.
type Shape struct {
	Name string
	Half Half
	// What says in words what is peculiar to it.
	What string
	// Nodes have as much swap as memory unless they say how much.
	Nodes []sim.Kind
	// Medium holds the checkpoints; empty: ssd. Store and Net are those of each node; 0: as
	// sim.DefaultConfig has them.
	Medium string
	Store  int64
	Net    float64

	draw func(d dice) job
}

// job is one draw: tasks that are alike but for how long they run.
type job struct {
	at       float64 // when it is submitted, as a share of the time of all
	user     string  // empty: one of a few, by chance
	priority headrace.Priority
	tasks    int // 0: 1
	run      float64
	cpus     float32
	memory   float64 // GiB
	changes  float64 // of its memory, in a second
	gpus     float32
	gang     bool
	// stages are how many the tasks are divided into; each waits for the one before, or, with
	// fan, the last for all others.
	stages int
	fan    bool
}

const gib = 1 << 30

// Config returns the cluster, with storage as it was measured.
func (s *Shape) Config(m sim.Measurements) (sim.Config, error) {
	c := sim.DefaultConfig()
	c.Nodes = 0
	for _, k := range s.Nodes {
		if k.Swap == 0 {
			k.Swap = k.Memory
		}
		c.Kinds = append(c.Kinds, k)
		c.Nodes += k.Nodes
	}
	if s.Store > 0 {
		c.Node.Store = s.Store
	}
	if s.Net > 0 {
		c.Node.Net = s.Net
	}
	return c, m.Apply(&c, s.medium())
}

func (s *Shape) medium() string {
	if s.Medium != "" {
		return s.Medium
	}
	return "ssd"
}

// Cluster says what the nodes are, in a line.
func (s *Shape) Cluster() string {
	var words []string
	for _, k := range s.Nodes {
		text := fmt.Sprintf("%d of %g CPUs, %s", k.Nodes, k.CPUs, report.Capacity(k.Memory))
		if n := k.Counted[gpu]; n > 0 {
			text += fmt.Sprintf(", %g GPUs", n)
		}
		if k.Swap > 0 {
			text += fmt.Sprintf(", %s of swap", report.Capacity(k.Swap))
		}
		words = append(words, text)
	}
	text := strings.Join(words, "; ")
	if s.Store > 0 {
		text += fmt.Sprintf("; %s for checkpoints", report.Capacity(s.Store))
	}
	if s.Net > 0 {
		text += fmt.Sprintf("; network of %s/s", report.Bytes(int64(s.Net)))
	}
	if s.Medium != "" {
		text += "; checkpoints on " + s.Medium
	}
	return text
}

const (
	gpu = "gpu"
	// nominal is the time in which jobs are submitted before the load is made right. It is
	// long, so that rounding does not count.
	nominal = 1000 * time.Hour
	// users are how many submit where a shape does not say who.
	users = 5
)

// Make draws jobs, two at least, until there are so many tasks, and has them come in such a
// time that they ask for the share load of the cluster's CPUs.
func (s *Shape) Make(seed uint64, tasks int, load float64) (*workload.Workload, error) {
	name := fnv.New64a()
	name.Write([]byte(s.Name))
	d := dice{rand.New(rand.NewPCG(seed, name.Sum64()))}
	c := &workload.Collector{Most: math.MaxInt}
	for made, number := 0, 1; made < tasks || number <= 2; number++ {
		j := s.draw(d)
		made += max(j.tasks, 1)
		if err := j.submit(d, number, c); err != nil {
			return nil, err
		}
	}
	w, err := c.Workload(workload.About{Name: fmt.Sprintf("shape %s, seed %d, at %.0f %%", s.Name, seed, 100*load)})
	if err != nil {
		return nil, err
	}
	cluster := sim.Config{Kinds: s.Nodes}
	had := w.Load() / cluster.CPUs()
	if !(had > 0 && load > 0) {
		return nil, fmt.Errorf("shape %s at a load of %v, made of one of %v: want more than 0", s.Name, load, had)
	}
	w.Stretch(had / load)
	return w, nil
}

// mostMoved is by how much Move moves a job.
const mostMoved = 5 * time.Second

// Move moves each job of w by up to 5 s, sooner or later, differently for each draw: to see what of a figure is chance.
func Move(w *workload.Workload, draw uint64) error {
	d := dice{rand.New(rand.NewPCG(draw, 5))}
	by := make([]time.Duration, len(w.Jobs))
	for i := range by {
		by[i] = time.Duration(d.between(-1, 1) * float64(mostMoved))
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		t.Submit = max(0, t.Submit+by[t.Job])
	}
	return w.Arrange()
}

// submit gives the tasks of j to a workload.
func (j job) submit(d dice, number int, to *workload.Collector) error {
	if j.user == "" {
		j.user = fmt.Sprintf("user%d", 1+d.IntN(users))
	}
	t := workload.Task{Job: to.Job(fmt.Sprintf("job%d", number)), User: to.User(j.user), Priority: j.priority, CPUs: j.cpus,
		Submit: time.Duration(j.at * float64(nominal)), Memory: int64(j.memory * gib), Dirty: float32(j.changes * j.memory * gib)}
	if j.gpus > 0 {
		needs := make([]float32, 1+to.Resource(gpu))
		needs[len(needs)-1] = j.gpus
		t.Need = to.Need(needs)
	}
	if j.gang {
		t.Gang = to.Gang()
	}
	stages := j.makeStages(to)
	n := max(j.tasks, 1)
	for i := range n {
		t.Index = int32(i)
		t.Run = time.Duration(math.Round(1000*j.run*d.between(0.8, 1.2))) * time.Millisecond
		if len(stages) > 0 {
			t.Stage = stages[i*len(stages)/n]
		}
		if err := to.Task(t); err != nil {
			return err
		}
	}
	return nil
}

func (j job) makeStages(to *workload.Collector) []int32 {
	stages := make([]int32, 0, j.stages)
	for i := range j.stages {
		stage := to.Stage()
		switch {
		case j.fan && i == j.stages-1:
			for _, before := range stages {
				to.After(stage, before)
			}
		case !j.fan && i > 0:
			to.After(stage, stages[i-1])
		}
		stages = append(stages, stage)
	}
	return stages
}
