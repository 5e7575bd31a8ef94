package manager

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"headrace"
)

// counters are what the manager has done since it was started. Safe for concurrent
// use.
type counters struct {
	decisions *prometheus.CounterVec
	ordered   *prometheus.CounterVec
	done      *prometheus.CounterVec
	took      *prometheus.HistogramVec
	deciding  prometheus.Histogram
	progress  *prometheus.CounterVec
	reports   prometheus.Counter
	strangers prometheus.Counter
}

func newCounters() *counters {
	c := &counters{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headrace_manager_decisions_total", Help: "Containers about which a scheduler has asked, by what was answered.",
		}, []string{"mechanism", "observe"}),
		ordered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headrace_manager_orders_total", Help: "Orders given to nodes.",
		}, []string{"verb"}),
		done: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headrace_manager_orders_over_total", Help: "Orders that are over: done, failed, late, lost with their node, or ended with their container.",
		}, []string{"verb", "how"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "headrace_manager_order_seconds", Help: "Time from the order to its result.",
			Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 100, 300, 1000},
		}, []string{"verb"}),
		deciding: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "headrace_manager_decision_seconds", Help: "Time to decide about all containers of one request.",
			Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1},
		}),
		progress: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headrace_manager_progress_total", Help: "What applications have told of the progress of containers: taken, refused (not theirs), or of unknown ones.",
		}, []string{"result"}),
		reports:   prometheus.NewCounter(prometheus.CounterOpts{Name: "headrace_manager_reports_total", Help: "Reports of nodes."}),
		strangers: prometheus.NewCounter(prometheus.CounterOpts{Name: "headrace_manager_refused_total", Help: "Requests without the token."}),
	}
	for _, command := range headrace.NodeCommands {
		verb := command.String()
		c.ordered.WithLabelValues(verb)
		c.done.WithLabelValues(verb, "done")
		c.took.WithLabelValues(verb)
	}
	return c
}

func (c *counters) decided(mechanism string, observe bool) {
	c.decisions.WithLabelValues(cmp.Or(mechanism, "unknown"), map[bool]string{true: "true", false: "false"}[observe]).Inc()
}

func (c *counters) collectors(of *cluster) []prometheus.Collector {
	return []prometheus.Collector{c.decisions, c.ordered, c.done, c.took, c.deciding, c.progress, c.reports, c.strangers, clusterCollector{of}}
}

// clusterCollector turns the cluster into gauges when somebody asks.
type clusterCollector struct{ of *cluster }

var (
	nodesDesc      = prometheus.NewDesc("headrace_manager_nodes", "Nodes by whether they are there.", []string{"away"}, nil)
	containersDesc = prometheus.NewDesc("headrace_manager_containers", "Containers by state.", []string{"state"}, nil)
	waitingDesc    = prometheus.NewDesc("headrace_manager_orders_outstanding", "Orders of which no result is known.", nil, nil)
)

// Describe sends nothing: the collector is unchecked.
func (g clusterCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the gauges.
func (g clusterCollector) Collect(ch chan<- prometheus.Metric) {
	var states [headrace.Lost + 1]int
	g.of.mu.Lock()
	there, all, orders := int(g.of.members.here), len(g.of.members.all), len(g.of.orders.all)
	for _, k := range g.of.containers.all {
		states[k.state]++
	}
	g.of.mu.Unlock()
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	gauge(nodesDesc, there, "false")
	gauge(nodesDesc, all-there, "true")
	for state, n := range states {
		if s := headrace.TaskState(state); !s.Final() {
			gauge(containersDesc, n, s.String())
		}
	}
	gauge(waitingDesc, orders)
}
