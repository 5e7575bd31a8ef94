package solo

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headrace"
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

// metricsHandler serves /metrics.
func metricsHandler(c *counters, all ...prometheus.Collector) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", serve.Metrics(append(all, c.all...)...))
	return mux
}
