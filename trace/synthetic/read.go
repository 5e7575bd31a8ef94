package synthetic

import (
	"io"

	"headrace/trace/input"
	"headrace/trace/workload"
)

// Read generates a day.
func Read(m *input.Meter, name string, seed uint64, scale float64, to workload.Sink) (workload.About, error) {
	d := GoogleDay()
	if name != GoogleDayName {
		err := m.WithFile(name, func(r io.Reader) (err error) {
			d, err = ReadDay(r)
			return err
		})
		if err != nil {
			return workload.About{}, err
		}
	}
	if scale == 0 {
		scale = 1
	}
	w, err := d.Generate(seed, scale)
	if err != nil {
		return workload.About{}, err
	}
	return workload.About{Name: w.Name, Cluster: w.Cluster, Notes: w.Notes}, pour(m, w, to)
}

// pour puts the tasks of a workload into a sink.
func pour(m *input.Meter, w *workload.Workload, to workload.Sink) error {
	for _, name := range w.Jobs {
		to.Job(name)
	}
	for _, f := range w.Files {
		to.Size(to.File(f.Name), f.Bytes)
	}
	for _, t := range w.Tasks {
		m.Record()
		if err := to.Task(t); err != nil {
			return err
		}
	}
	return nil
}
