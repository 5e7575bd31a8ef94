package data

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headrace/pagecache"
)

// Metrics tells how files are read and kept when somebody asks.
func (f *Files) Metrics() prometheus.Collector { return collector{f} }

type collector struct{ files *Files }

var (
	residencyDesc = prometheus.NewDesc("headrace_residency_method", "1 for the method by which it is found out what is in memory.", []string{"method"}, nil)
	hangsDesc     = prometheus.NewDesc("headrace_disk_hangs_seconds", "For how long a disk or file server has not answered a reader, or a dump or restore has had its turn that takes far too long.", []string{"device"}, nil)
	pinnedDesc    = prometheus.NewDesc("headrace_warm_pinned_bytes", "Bytes of files that are locked in memory for later readers.", nil, nil)
	budgetDesc    = prometheus.NewDesc("headrace_warm_budget_bytes", "Bytes that may be.", nil, nil)
	requestsDesc  = prometheus.NewDesc("headrace_warm_requests", "Requests for files to be kept in memory.", nil, nil)
	migratedDesc  = prometheus.NewDesc("headrace_warm_migrated_bytes_total", "Bytes that warming has read from disks.", nil, nil)
	skippedDesc   = prometheus.NewDesc("headrace_warm_skipped_bytes_total", "Bytes that warming has found in memory.", nil, nil)
	releasedDesc  = prometheus.NewDesc("headrace_warm_released_bytes_total", "Bytes that are not locked any more.", nil, nil)
	wastedDesc    = prometheus.NewDesc("headrace_warm_wasted_bytes_total", "Bytes that were let go before any reading of them was noted.", nil, nil)
	warmFailDesc  = prometheus.NewDesc("headrace_warm_failed_files_total", "Files that could not be read ahead.", nil, nil)
)

// Describe sends nothing: the collector is unchecked.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	method, _ := c.files.cache.Method()
	for _, m := range []pagecache.Method{pagecache.BPF, pagecache.Cachestat, pagecache.None} {
		is := 0.0
		if m == method {
			is = 1
		}
		send(residencyDesc, prometheus.GaugeValue, is, string(m))
	}
	uses := c.files.disks.Uses()
	hangs := map[string]time.Duration{} // a name may have had several numbers
	for _, d := range c.files.disks.Devices() {
		hangs[d.Name] = max(0, hangs[d.Name])
		for _, u := range uses[d.ID] {
			hangs[d.Name] = max(hangs[d.Name], u.Hangs)
		}
	}
	for name, d := range hangs {
		send(hangsDesc, prometheus.GaugeValue, d.Seconds(), name)
	}
	if c.files.warming == nil {
		return
	}
	n := c.files.warming.engine.Counters()
	send(pinnedDesc, prometheus.GaugeValue, float64(n.Pinned))
	send(budgetDesc, prometheus.GaugeValue, float64(n.Budget))
	send(requestsDesc, prometheus.GaugeValue, float64(n.Requests))
	send(migratedDesc, prometheus.CounterValue, float64(n.Migrated))
	send(skippedDesc, prometheus.CounterValue, float64(n.Skipped))
	send(releasedDesc, prometheus.CounterValue, float64(n.Released))
	send(wastedDesc, prometheus.CounterValue, float64(n.Wasted))
	send(warmFailDesc, prometheus.CounterValue, float64(n.FailedFiles))
}
