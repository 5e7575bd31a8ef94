package inputs

import "github.com/prometheus/client_golang/prometheus"

// Metrics tells what is kept and followed when somebody asks.
func (in *Inputs) Metrics() prometheus.Collector { return collector{in} }

type collector struct{ of *Inputs }

var (
	followingDesc = prometheus.NewDesc("headrace_manager_following_applications", "Applications that ask what is in memory where.", nil, nil)
	followedDesc  = prometheus.NewDesc("headrace_manager_followed_blocks", "Blocks that these, or jobs whose input is kept, are interested in.", nil, nil)
	jobsDesc      = prometheus.NewDesc("headrace_manager_warm_jobs", "Jobs whose input is kept in memory, or is to be.", nil, nil)
	keptDesc      = prometheus.NewDesc("headrace_manager_warm_pinned_bytes", "Bytes that nodes keep in memory for them.", nil, nil)
)

// Describe sends nothing: the collector is unchecked.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the gauges.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	c.of.mu.Lock()
	memory, kept := c.of.memory.Totals(), c.of.master.Totals()
	c.of.mu.Unlock()
	for d, v := range map[*prometheus.Desc]int64{followingDesc: int64(memory.Applications), followedDesc: int64(memory.Blocks), jobsDesc: int64(kept.Jobs), keptDesc: kept.Pinned} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
}
