package sim

import (
	"cmp"
	"fmt"
	"slices"

	"headrace/trace"
)

// files is the distributed file system that inputs lie in, and how tasks read them.
// The engine has none when nothing is to be read.
type files struct {
	*storage
	c     Reading
	tally *tally
	// goOn is called when a task has read all of its input.
	goOn func(*task)
	warm warming
	view residency

	// jobs is the input of each job in bytes, lost what was read for tasks whose
	// reading was thrown away.
	jobs  []int64
	lost  int64
	r     ReadingResult
	sizes [len(sizeNames)]JobSize // sums, not means
}

// openFiles prepares the reading of inputs, if there are any and disks have a speed.
func (e *engine) openFiles() error {
	if e.c.Reading.Disk == 0 {
		return nil
	}
	jobs, any := jobInputs(e.w)
	if !any {
		return nil
	}
	p, err := cut(e.w, e.c)
	if err != nil {
		return err
	}
	if e.c.Reading.ByResidency {
		for i := range e.roster.view.Nodes {
			e.roster.view.Nodes[i].Disk = e.c.Reading.Disk
		}
	}
	d := &files{c: e.c.Reading, tally: e.tally, goOn: e.goOn, jobs: jobs}
	d.storage = newStorage(e.clock, p, &e.c, d)
	d.view = newResidency(d.storage, &e.roster, d.c.ByResidency)
	d.warm = newWarming(d.storage, e.w, d.c, jobs)
	e.files = d
	return nil
}

// jobInputs returns how many bytes each job reads, and whether any does.
func jobInputs(w *trace.Workload) (jobs []int64, any bool) {
	jobs = make([]int64, len(w.Jobs))
	for i := range w.Tasks {
		jobs[w.Tasks[i].Job] += w.Tasks[i].Input
		any = any || w.Tasks[i].Input > 0
	}
	return jobs, any
}

// happen handles an event of a disk or a network, or an announcement.
func (d *files) happen(ev event) {
	if ev.kind == evAnnounced {
		d.warm.announced()
		return
	}
	for _, f := range d.due(ev) {
		if f.f == nil {
			d.part(f.t, overNet)
			continue
		}
		for _, t := range f.f.readers {
			d.part(t, onDisk)
		}
	}
}

// settle does what is left to be done after something has happened.
func (d *files) settle() {
	d.warm.settle()
	d.storage.settle()
}

func (d *files) changed(n *dataNode, piece int32, bytes int64) {
	d.view.changed(n, piece, bytes)
	if bytes < 0 {
		d.warm.dropped(n, piece)
	}
}

func (d *files) warmed(f *fetch)  { d.warm.warmed(f) }
func (d *files) free(n *dataNode) { d.warm.look(n) }

// ended counts t, which has ended, and its job if that has too, and lets the wishes of
// the job go.
func (d *files) ended(t *task, response float64, jobEnded bool) {
	job := t.spec.Job
	s := &d.sizes[sizeOf(d.jobs[job])]
	if jobEnded {
		if d.jobs[job] > 0 {
			s.Jobs++
			s.Response += response
		}
		d.warm.jobEnded(job)
	}
	if t.in != nil {
		s.Tasks++
		s.Time += t.in.took.Seconds()
		d.view.forget(t)
	}
}

// result returns how inputs were read in so many seconds.
func (d *files) result(makespan float64) *ReadingResult {
	r := d.r
	d.warm.pin(&d.warm.lanes[0], 0) // until now
	r.Lost, r.Disks, r.Ahead, r.PinnedMost = d.lost, d.read, d.warm.ahead, d.warm.most
	if makespan > 0 {
		r.DiskBusy = d.busy().Seconds() / (makespan * float64(len(d.nodes)))
		r.Pinned = d.warm.sum / (makespan * float64(len(d.nodes)))
	}
	tasks, read := 0, 0.0
	for i, s := range d.sizes {
		tasks += s.Tasks
		read += s.Time
		s.Name = sizeNames[i]
		s.Response /= float64(max(1, s.Jobs))
		s.Time /= float64(max(1, s.Tasks))
		r.Jobs = append(r.Jobs, s)
	}
	r.Time = read / float64(max(1, tasks))
	return &r
}

// conserved verifies, when all tasks have ended, that each has read its input, and
// that nothing is left behind.
func (d *files) conserved() error {
	var input int64
	for _, bytes := range d.jobs {
		input += bytes
	}
	if d.r.Bytes != input+d.lost {
		return fmt.Errorf("sim: tasks have inputs of %d bytes; they have read %d, and %d of that in vain", input, d.r.Bytes, d.lost)
	}
	for i := range d.nodes {
		n, l := &d.nodes[i], &d.warm.lanes[i]
		if len(n.disk.flows) > 0 || len(n.net.flows) > 0 || n.disk.behind != nil || len(n.fetching) > 0 || l.pinned != 0 || n.cache.pinned != 0 || len(l.follow) > 0 {
			return fmt.Errorf("sim: all tasks have ended, and node %d still reads, or keeps %d bytes for jobs", i+1, n.cache.pinned)
		}
	}
	return nil
}

// verify checks the invariants of memory and disks that hold at any time. left is how
// many tasks of each job have not ended.
func (d *files) verify(left []int32) error {
	return cmp.Or(d.storage.verify(), d.warm.verify(left))
}

// verifyTask checks how far t has read, and what the policy is told of its input.
func (d *files) verifyTask(t *task) error {
	r := t.in
	if r == nil {
		return nil
	}
	if r.at < r.first || r.at > r.last || r.had < 0 || r.at < r.last && r.had >= d.all[r.at].bytes || (t.phase == reading) != (r.parts != 0) {
		return fmt.Errorf("%s is at piece %d of %d to %d, %d bytes into it", t.v.ID, r.at, r.first, r.last, r.had)
	}
	if at := d.bytesTo(r) + r.had; r.done != at || r.saved.done > r.done || r.at < r.last && (t.phase == running || t.done > 0) {
		return fmt.Errorf("%s has read %d bytes, %d of them saved, and is at %d", t.v.ID, r.done, r.saved.done, at)
	}
	var buf [8]int32
	for i, at := range t.v.Input.At {
		var local, resident int64
		for p := r.first; p < r.last; p++ {
			if slices.Contains(d.replicasOf(p, buf[:0]), r.nodes[i]) {
				local += d.all[p].bytes
				if d.c.ByResidency && d.nodes[r.nodes[i]].cache.get(p) != nil {
					resident += d.all[p].bytes
				}
			}
		}
		if at.Node != d.view.roster.view.Nodes[r.nodes[i]].ID || at.Local != local || at.Resident != resident {
			return fmt.Errorf("%s: %+v, but %d bytes are there and %d in memory", t.v.ID, at, local, resident)
		}
	}
	if d.c.ByResidency {
		var cold int64
		for p := r.saved.at; p < r.at; p++ {
			if d.nodes[t.node.i].cache.get(p) == nil {
				cold += d.all[p].bytes
			}
		}
		if in := &t.v.Input; in.Cold != cold || in.FromDisk < 0 || in.FromDisk+r.slow > r.done-r.saved.done {
			return fmt.Errorf("%s: %+v, but it would have to read %d bytes again, of %d", t.v.ID, *in, cold, r.done-r.saved.done)
		}
	}
	if r.fetch != nil && r.parts&onDisk != 0 && r.fetch.flow.place < 0 {
		return fmt.Errorf("%s waits for a disk that does not read for it", t.v.ID)
	}
	return nil
}

// bytesTo returns how many bytes are before the piece that r is at.
func (d *files) bytesTo(r *input) int64 {
	if r.at == r.first {
		return 0
	}
	return d.bytes(r.first, r.at)
}
