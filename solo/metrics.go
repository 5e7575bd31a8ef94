package solo

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headrace"
	"headrace/internal/vfs"
	"headrace/serve"
)

// counters are what the daemon has done since it was started. Safe for
// concurrent use.
type counters struct {
	preemptions               *prometheus.CounterVec
	dumps, restores           prometheus.Counter
	dumpSeconds, dumpBytes    prometheus.Counter
	restoreSeconds, restoreIn prometheus.Counter
	lostCPU, lostWall         prometheus.Counter
	failure, restoreFailure   prometheus.Counter
	all                       []prometheus.Collector
}

func newCounters() *counters {
	c := &counters{}
	counter := func(name, help string) prometheus.Counter {
		m := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		c.all = append(c.all, m)
		return m
	}
	c.preemptions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headrace_preemptions_total", Help: "Tasks that had to make room, by mechanism.",
	}, []string{"mechanism"})
	c.all = append(c.all, c.preemptions)
	for _, m := range []headrace.Mechanism{headrace.Suspend, headrace.Checkpoint, headrace.Kill} {
		c.preemptions.WithLabelValues(m.String())
	}
	c.dumps = counter("headrace_dumps_total", "Checkpoints written.")
	c.dumpSeconds = counter("headrace_dump_seconds_total", "Time spent on writing checkpoints.")
	c.dumpBytes = counter("headrace_dump_bytes_total", "Bytes written by checkpoints.")
	c.restores = counter("headrace_restores_total", "Checkpoints restored.")
	c.restoreSeconds = counter("headrace_restore_seconds_total", "Time spent on restoring checkpoints.")
	c.restoreIn = counter("headrace_restore_bytes_total", "Bytes read by restores.")
	c.lostCPU = counter("headrace_lost_cpu_seconds_total", "Processor time of work thrown away by kills and losses.")
	c.lostWall = counter("headrace_lost_seconds_total", "Running time of work thrown away by kills and losses.")
	c.failure = counter("headrace_checkpoint_failures_total", "Checkpoints that failed; the task went on.")
	c.restoreFailure = counter("headrace_restore_failures_total", "Restores that failed; most are tried again, or wait for a user.")
	return c
}

func (c *counters) preemption(m headrace.Mechanism) { c.preemptions.WithLabelValues(m.String()).Inc() }

func (c *counters) dump(took time.Duration, bytes int64) {
	c.dumps.Inc()
	c.dumpSeconds.Add(took.Seconds())
	c.dumpBytes.Add(float64(bytes))
}

func (c *counters) restore(took time.Duration, bytes int64) {
	c.restores.Inc()
	c.restoreSeconds.Add(took.Seconds())
	c.restoreIn.Add(float64(bytes))
}

func (c *counters) lost(cpu, wall time.Duration) {
	c.lostCPU.Add(cpu.Seconds())
	c.lostWall.Add(wall.Seconds())
}

// boardCollector turns the board, and the room of the state directory, into gauges when somebody asks.
type boardCollector struct {
	board    *board
	stateDir string
}

var (
	tasksDesc     = prometheus.NewDesc("headrace_tasks", "Tasks by state.", []string{"state"}, nil)
	queueDesc     = prometheus.NewDesc("headrace_queue_length", "Tasks that wait to run, held ones not counted.", nil, nil)
	heldDesc      = prometheus.NewDesc("headrace_tasks_held", "Tasks that are held until somebody resumes or restores them.", nil, nil)
	slotsDesc     = prometheus.NewDesc("headrace_slots", "Slots of the machine.", nil, nil)
	slotsUsedDesc = prometheus.NewDesc("headrace_slots_used", "Slots that tasks hold.", nil, nil)
	memoryDesc    = prometheus.NewDesc("headrace_memory_bytes", "Memory budget of the tasks.", nil, nil)
	memUsedDesc   = prometheus.NewDesc("headrace_memory_used_bytes", "Resident memory of the tasks.", nil, nil)
	swapFreeDesc  = prometheus.NewDesc("headrace_swap_free_bytes", "Free swap of the machine.", nil, nil)
	writeDesc     = prometheus.NewDesc("headrace_store_write_bytes_per_second", "Measured bandwidth of dumps.", []string{"store"}, nil)
	readDesc      = prometheus.NewDesc("headrace_store_read_bytes_per_second", "Measured bandwidth of restores.", []string{"store"}, nil)
	storeFreeDesc = prometheus.NewDesc("headrace_store_free_bytes", "Room left in the store, beside what dumps under way are to write; not there while the store is away.", []string{"store"}, nil)
	storeSizeDesc = prometheus.NewDesc("headrace_store_size_bytes", "Size of the file system of the store.", []string{"store"}, nil)
	storeAwayDesc = prometheus.NewDesc("headrace_store_away", "1: the store cannot be used now, as it is not mounted, another daemon's, or does not answer.", []string{"store"}, nil)
	stateFreeDesc = prometheus.NewDesc("headrace_state_free_bytes", "Room left on the file system of the state directory.", nil, nil)
	stateSizeDesc = prometheus.NewDesc("headrace_state_size_bytes", "Size of the file system of the state directory.", nil, nil)
)

// Describe sends nothing: the collector is unchecked.
func (b boardCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the gauges.
func (b boardCollector) Collect(ch chan<- prometheus.Metric) {
	s := b.board.nodeStatus()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for state, n := range s.states {
		gauge(tasksDesc, float64(n), headrace.TaskState(state).String())
	}
	gauge(queueDesc, float64(s.waiting))
	gauge(heldDesc, float64(s.held))
	gauge(slotsDesc, s.slots)
	gauge(slotsUsedDesc, s.slotsUsed)
	gauge(memoryDesc, float64(s.memory))
	gauge(memUsedDesc, float64(s.memoryUsed))
	gauge(swapFreeDesc, float64(s.swapFree))
	for _, st := range s.stores {
		gauge(writeDesc, st.Write, st.Name)
		gauge(readDesc, st.Read, st.Name)
		if st.away {
			gauge(storeAwayDesc, 1, st.Name)
			continue
		}
		gauge(storeAwayDesc, 0, st.Name)
		gauge(storeFreeDesc, float64(st.Free), st.Name)
		gauge(storeSizeDesc, float64(st.size), st.Name)
	}
	if free, size, err := vfs.Space(b.stateDir); err == nil {
		gauge(stateFreeDesc, float64(free))
		gauge(stateSizeDesc, float64(size))
	}
}

// metricsHandler serves /metrics.
func metricsHandler(c *counters, all ...prometheus.Collector) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", serve.Metrics(append(all, c.all...)...))
	return mux
}
