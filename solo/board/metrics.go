package board

import (
	"github.com/prometheus/client_golang/prometheus"

	"headrace"
	"headrace/internal/vfs"
)

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

// Metrics shows the machine, and the room of the state directory, as gauges.
func (b *Board) Metrics(stateDir string) prometheus.Collector {
	return prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) { b.collect(ch, stateDir) })
}

func (b *Board) collect(ch chan<- prometheus.Metric, stateDir string) {
	s := b.Node()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for state, n := range s.States {
		gauge(tasksDesc, float64(n), headrace.TaskState(state).String())
	}
	gauge(queueDesc, float64(s.Waiting))
	gauge(heldDesc, float64(s.Held))
	gauge(slotsDesc, s.Slots)
	gauge(slotsUsedDesc, s.SlotsUsed)
	gauge(memoryDesc, float64(s.Memory))
	gauge(memUsedDesc, float64(s.MemoryUsed))
	gauge(swapFreeDesc, float64(s.SwapFree))
	for _, st := range s.Stores {
		gauge(writeDesc, st.Write, st.Name)
		gauge(readDesc, st.Read, st.Name)
		if st.Away {
			gauge(storeAwayDesc, 1, st.Name)
			continue
		}
		gauge(storeAwayDesc, 0, st.Name)
		gauge(storeFreeDesc, float64(st.Free), st.Name)
		gauge(storeSizeDesc, float64(st.Size), st.Name)
	}
	if free, size, err := vfs.Space(stateDir); err == nil {
		gauge(stateFreeDesc, float64(free))
		gauge(stateSizeDesc, float64(size))
	}
}
