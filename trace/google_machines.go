package trace

import (
	"io"
	"io/fs"
	"iter"
	"math"
	"time"
)

// GoogleMachineEvent is one event of a machine in a trace of Google's clusters, as a
// line of machine_events has it (clusterdata-2011-2).
type GoogleMachineEvent struct {
	// At is as in GoogleEvent.
	At      time.Duration
	Machine int64
	Kind    GoogleMachineKind
	// CPUs and Memory are what it has, in shares of the largest machine; 0 when it is
	// not known.
	CPUs, Memory float64
}

// GoogleMachineKind is what happened to a machine.
type GoogleMachineKind uint8

// The kinds, with their published numbers.
const (
	GoogleMachineAdd GoogleMachineKind = iota
	GoogleMachineRemove
	GoogleMachineUpdate
	googleMachineKinds
)

// googleMachineFields are the names of the fields of machine_events.
var googleMachineFields = [...]string{"time", "machine ID", "event type", "platform ID", "CPUs", "memory"}

// ReadGoogleMachines returns the events of one file of machine_events, as ReadGoogle is
// those of task_events.
func ReadGoogleMachines(r io.Reader) iter.Seq2[GoogleMachineEvent, error] {
	return readLines(r, (*parser).googleMachineEvent)
}

func (p *parser) googleMachineEvent(text []byte) (GoogleMachineEvent, error) {
	var f [len(googleMachineFields)][]byte
	if err := p.commas(text, f[:]); err != nil {
		return GoogleMachineEvent{}, err
	}
	r := fieldReader{p: p, names: googleMachineFields[:], fields: f[:]}
	e := GoogleMachineEvent{At: googleTime(r.number(0, math.MaxInt64)), Machine: r.number(1, math.MaxInt64),
		Kind: GoogleMachineKind(r.number(2, int64(googleMachineKinds)-1)), CPUs: r.share(4), Memory: r.share(5)}
	return e, r.err
}

// googleCluster returns the machines that were there at a time, as so many equal ones:
// none where the trace has no machine_events.
func googleCluster(m *meter, dir fs.FS, o GoogleOptions, at time.Duration) (Cluster, error) {
	names, err := fs.Glob(dir, "machine_events/part-*.csv*")
	if err != nil {
		return Cluster{}, err
	}
	there := map[int64]GoogleMachineEvent{}
	for e, err := range readParts(dir, names, ReadGoogleMachines) {
		if err != nil {
			return Cluster{}, err
		}
		m.record()
		if e.At > at {
			break
		}
		if e.Kind == GoogleMachineRemove {
			delete(there, e.Machine)
		} else {
			there[e.Machine] = e
		}
	}
	var cpus, memory float64
	known := 0
	for _, e := range there {
		if e.CPUs > 0 && e.Memory > 0 {
			cpus, memory, known = cpus+math.Round(e.CPUs*1e6), memory+math.Round(e.Memory*1e6), known+1
		}
	}
	if known == 0 {
		return Cluster{}, nil
	}
	n := float64(known) * 1e6
	return Cluster{Nodes: len(there), CPUs: cpus / n * o.CPUs, Memory: int64(memory / n * float64(o.Memory))}, nil
}
