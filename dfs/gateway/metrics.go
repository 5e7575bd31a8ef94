package gateway

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headrace/disk"
	"headrace/internal/vfs"
	"headrace/ring"
)

// measures are what a gateway has done since it was started.
type measures struct {
	calls    *prometheus.HistogramVec
	failures *prometheus.CounterVec
	bytes    *prometheus.CounterVec
}

func newMeasures() measures {
	return measures{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "headrace_dfs_call_seconds", Help: "Time to answer calls of clients by RPC, those that another node has passed on included.",
			Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30},
		}, []string{"method"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "headrace_dfs_call_failures_total", Help: "Calls that were answered with an exception."}, []string{"method"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headrace_dfs_bytes_total", Help: "Bytes of blocks that were sent to others from here (read), and that came (written).",
		}, []string{"direction"}),
	}
}

// done notes a call of a method that there is.
func (m *measures) done(method string, took time.Duration, err error) {
	m.calls.WithLabelValues(method).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(method).Inc()
	}
}

// Collectors are for Prometheus. Who collects need not be somebody who may see names: there are none.
func (g *Gateway) Collectors() []prometheus.Collector {
	return []prometheus.Collector{g.measures.calls, g.measures.failures, g.measures.bytes, gauges{g}}
}

// gauges are what is so at the moment.
type gauges struct{ *Gateway }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("headrace_dfs_"+name, help, labels, nil)
}

var (
	capacityDesc  = desc("disk_capacity_bytes", "What the disks in use hold.", "dir")
	freeDesc      = desc("disk_free_bytes", "What is free for new blocks.", "dir")
	namesFreeDesc = desc("names_free_bytes", "What is free on the disk with the names and their log.")
	namesSizeDesc = desc("names_size_bytes", "The size of that disk.")
	outDesc       = desc("disk_out", "1: the disk is out of use.", "dir")
	readOnlyDesc  = desc("directory_unwritable", "1: the directory cannot be written any more; the log and headrace dfs ring say why, and what to do.", "dir")
	damagedDesc   = desc("copies_damaged", "Copies here that cannot be read as they were written, and are not replaced yet.")
	homelessDesc  = desc("blocks_without_room", "Blocks of segments that are to be here and for which there was no room when they were tried last; not those whose places are kept, nor damaged ones.")
	waitingDesc   = desc("disk_readers_waiting", "Readers that wait for their turn at a device.", "device")
	readingDesc   = desc("disk_readers", "Readers that are open at a device.", "device")
	turnsDesc     = desc("disk_turns_total", "Turns that were had at a device.", "device")
	blocksDesc    = desc("blocks", "Copies of blocks here.")
	memoryDesc    = desc("blocks_in_memory", "Finished blocks that are in memory, as the node that leads is told by each node.", "node")
	epochDesc     = desc("ring_epoch", "The number of the ring's table, as far as it is known here.")
	nodesDesc     = desc("ring_nodes", "Nodes of the ring.", "state")
	movesDesc     = desc("ring_moves", "Segments that nodes are to fill.")
	missedDesc    = desc("ring_segments_missing", "Segments of which nobody is up who has them.")
	leadsDesc     = desc("leads", "1: this node leads the names.")
	ledDesc       = desc("led", "1: this node knows who leads the names.")
	termDesc      = desc("raft_term", "The term of the names' group.")
	appliedDesc   = desc("raft_applied", "The last entry of the log that is in the state; not there on a node without a replica.")
	logDesc       = desc("raft_log_entries", "Entries in the log of the names.")
	votersDesc    = desc("raft_voters", "Nodes that vote.")
	differDesc    = desc("names_differing", "Nodes that have come to other names than this one from the same commands.")
	lackingDesc   = desc("blocks_lacking_copies", "Blocks with fewer copies than they are to have, as far as it is kept where they are; of the node that leads.")
	lacksDesc     = desc("copies_lacking", "Copies that these lack.")
	problemsDesc  = desc("blocks_missing", "Blocks of which nothing good can be read; of the node that leads, up to a minute old.")
	openDesc      = desc("files_open", "Files that somebody writes; of the node that leads.")
	fetchingsDesc = desc("copies_fetching", "Copies that are being fetched from other nodes.")
)

// Describe sends nothing: the collector is unchecked.
func (gauges) Describe(chan<- *prometheus.Desc) {}

// Collect sends the gauges.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	n := g.node
	damaged := int64(0)
	for _, v := range n.Blocks.Volumes() {
		damaged += v.Damaged
		if gauge(outDesc, bit(v.Cause != nil), v.Dir); v.Cause == nil {
			gauge(capacityDesc, float64(v.Total), v.Dir)
			gauge(freeDesc, float64(v.Free), v.Dir)
		}
	}
	gauge(damagedDesc, float64(damaged))
	room := n.Room()
	gauge(homelessDesc, float64(room.Homeless))
	unwritable := map[string]float64{n.Config.Dir: 0, n.Config.Run: 0}
	for _, d := range room.Unwritable {
		unwritable[d.Dir] = 1
	}
	for dir, is := range unwritable {
		gauge(readOnlyDesc, is, dir)
	}
	if free, size, err := vfs.Space(n.Config.Dir); err == nil {
		gauge(namesFreeDesc, float64(free))
		gauge(namesSizeDesc, float64(size))
	}
	names := map[disk.ID]string{}
	for _, d := range n.Blocks.Turns.Devices() {
		names[d.ID] = d.Name
	}
	for id, uses := range n.Blocks.Turns.Uses() {
		waiting, readers, turns := 0, int64(0), int64(0)
		for _, u := range uses {
			turns += u.Turns
			if u.Name != "ended" {
				readers += u.Readers
			}
			if u.Waiting {
				waiting++
			}
		}
		gauge(waitingDesc, float64(waiting), names[id])
		gauge(readingDesc, float64(readers), names[id])
		ch <- prometheus.MustNewConstMetric(turnsDesc, prometheus.CounterValue, float64(turns), names[id])
	}
	gauge(blocksDesc, float64(n.Blocks.Number()))
	gauge(fetchingsDesc, float64(n.Fetching()))
	v := n.View()
	gauge(epochDesc, float64(v.Table.Epoch()))
	gauge(movesDesc, float64(len(v.Table.Moves())))
	gauge(missedDesc, float64(len(v.Table.Missing())))
	states := map[ring.State]int{ring.IsUp: 0, ring.IsDown: 0, ring.IsOut: 0}
	for _, m := range v.Table.Nodes() {
		states[m.State]++
	}
	for state, count := range states {
		gauge(nodesDesc, float64(count), state.String())
	}
	gauge(leadsDesc, bit(n.Leads()))
	gauge(ledDesc, bit(v.Leader != ""))
	gauge(termDesc, float64(v.Term))
	if s, err := n.Raft(); err == nil {
		gauge(appliedDesc, float64(s.Applied))
		gauge(logDesc, float64(s.Last+1-min(s.First, s.Last+1)))
		gauge(votersDesc, float64(len(s.Voters)))
		gauge(differDesc, float64(len(n.Differing())))
	}
	if !n.Leads() {
		return
	}
	for name, in := range n.Keeper.Remembered() {
		gauge(memoryDesc, float64(in), name)
	}
	blocks, copies := n.Keeper.Lacking()
	gauge(lackingDesc, float64(blocks))
	gauge(lacksDesc, float64(copies))
	if h, err := g.health.of(n, lookTime); err == nil && h.known {
		gauge(problemsDesc, float64(h.missing))
	}
	if open, err := g.open(); err == nil {
		gauge(openDesc, float64(open))
	}
}

func bit(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

var errHangs = errors.New("the last look has not ended")

// look has one collector at a time look: a disk that hangs holds up no more than one.
func (g *Gateway) Look(f func()) error {
	if !g.looking.TryLock() {
		return errHangs
	}
	defer g.looking.Unlock()
	f()
	return nil
}
