package google

import (
	"io"
	"io/fs"
	"iter"
	"math"
	"time"

	"headrace/trace/input"
	"headrace/trace/workload"
)

// MachineEvent is one event of a machine in a trace of Google's clusters, as a
// line of machine_events has it (clusterdata-2011-2).
type MachineEvent struct {
	// At is as in Event.
	At      time.Duration
	Machine int64
	Kind    MachineKind
	// CPUs and Memory are what it has, in shares of the largest machine; 0 when it is
	// not known.
	CPUs, Memory float64
}

// MachineKind is what happened to a machine.
type MachineKind uint8

// The kinds, with their published numbers.
const (
	MachineAdd MachineKind = iota
	MachineRemove
	MachineUpdate
	machineKinds
)

// machineFields are the names of the fields of machine_events.
var machineFields = [...]string{"time", "machine ID", "event type", "platform ID", "CPUs", "memory"}

// ReadMachines returns the events of one file of machine_events, as ReadEvents is
// those of task_events.
func ReadMachines(r io.Reader) iter.Seq2[MachineEvent, error] {
	return input.Lines(r, machineEvent)
}

func machineEvent(p *input.Parser, text []byte) (MachineEvent, error) {
	var f [len(machineFields)][]byte
	if err := p.Commas(text, f[:]); err != nil {
		return MachineEvent{}, err
	}
	r := input.FieldReader{P: p, Names: machineFields[:], Fields: f[:]}
	e := MachineEvent{At: sinceStart(r.Number(0, math.MaxInt64)), Machine: r.Number(1, math.MaxInt64),
		Kind: MachineKind(r.Number(2, int64(machineKinds)-1)), CPUs: r.Share(4), Memory: r.Share(5)}
	return e, r.Err
}

// cluster returns the machines that were there at a time, as so many equal ones:
// none where the trace has no machine_events.
func cluster(m *input.Meter, dir fs.FS, o Options, at time.Duration) (workload.Cluster, error) {
	names, err := fs.Glob(dir, "machine_events/part-*.csv*")
	if err != nil {
		return workload.Cluster{}, err
	}
	there := map[int64]MachineEvent{}
	for e, err := range readParts(dir, names, ReadMachines) {
		if err != nil {
			return workload.Cluster{}, err
		}
		m.Record()
		if e.At > at {
			break
		}
		if e.Kind == MachineRemove {
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
		return workload.Cluster{}, nil
	}
	n := float64(known) * 1e6
	return workload.Cluster{Nodes: len(there), CPUs: cpus / n * o.CPUs, Memory: int64(memory / n * float64(o.Memory))}, nil
}
