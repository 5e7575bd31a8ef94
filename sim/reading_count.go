package sim

import (
	"fmt"
	"slices"
)

// taskEnded counts t, which has ended.
func (d *files) taskEnded(t *task) {
	if t.in == nil {
		return
	}
	s := &d.sizes[sizeOf(d.jobs[t.spec.Job])]
	s.tasks++
	s.read += t.in.took.Seconds()
}

// countJob counts a job that has ended, and lets its wishes go.
func (d *files) countJob(job int32, response float64) {
	if d.jobs[job] > 0 {
		s := &d.sizes[sizeOf(d.jobs[job])]
		s.jobs++
		s.response += response
	}
	d.jobEnded(job)
}

// result is how inputs were read in so many seconds.
func (d *files) result(makespan float64) *ReadingResult {
	r := d.r
	d.pin(&d.nodes[0], 0) // until now
	r.Lost, r.Disks, r.Ahead, r.PinnedMost = d.lost, d.disks, d.warm.read, d.warm.most
	if makespan > 0 {
		r.DiskBusy = d.busy().Seconds() / (makespan * float64(len(d.nodes)))
		r.Pinned = d.warm.sum / (makespan * float64(len(d.nodes)))
	}
	tasks, read := 0, 0.0
	for i, s := range d.sizes {
		tasks += s.tasks
		read += s.read
		r.Jobs = append(r.Jobs, JobSize{
			Name: sizeNames[i], Jobs: s.jobs, Tasks: s.tasks,
			Response: s.response / float64(max(1, s.jobs)), Time: s.read / float64(max(1, s.tasks)),
		})
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
		n := &d.nodes[i]
		if len(n.disk.flows) > 0 || len(n.net.flows) > 0 || n.disk.behind != nil || len(n.fetching) > 0 || n.lane.pinned != 0 || n.cache.pinned != 0 || len(n.lane.follow) > 0 {
			return fmt.Errorf("sim: all tasks have ended, and node %d still reads, or keeps %d bytes for jobs", i+1, n.cache.pinned)
		}
	}
	return nil
}

// verify checks the invariants of memory and disks that hold at any time.
func (d *files) verify() error {
	for i := range d.nodes {
		n := &d.nodes[i]
		var bytes, kept int64
		pins := 0
		for piece, x := range n.cache.entries {
			bytes += x.bytes
			if x.piece != piece || x.bytes != d.all[piece].bytes || x.pins < 0 || (x.pins == 0) != (x.next != nil) {
				return fmt.Errorf("piece %d in the memory of node %d is not what it should be", piece, i+1)
			}
			if x.pins > 0 {
				kept += x.bytes
				pins++
			}
		}
		moving := int64(0)
		if f := n.lane.fetch; f != nil {
			moving = f.flow.bytes
		}
		if bytes != n.cache.bytes || bytes > d.c.Cache || kept != n.cache.pinned || pins != n.cache.pins || kept+moving != n.lane.pinned || n.lane.pinned > d.c.Buffer {
			return fmt.Errorf("node %d has %d bytes in memory, counted as %d, of %d; %d are kept and %d will be, counted as %d and %d, of %d",
				i+1, bytes, n.cache.bytes, d.c.Cache, kept, moving, n.cache.pinned, n.lane.pinned, d.c.Buffer)
		}
		for _, f := range n.disk.flows {
			if len(f.f.readers) == 0 {
				return fmt.Errorf("node %d reads something before others that nobody waits for", i+1)
			}
		}
		if f := n.disk.behind; f != nil && (len(f.f.readers) > 0 || f.f.wish == nil || f.f != n.lane.fetch) {
			return fmt.Errorf("node %d reads ahead what somebody waits for, or nobody wants", i+1)
		}
	}
	return d.verifyWishes()
}

// verifyWishes checks that what is kept is what jobs want that have not ended.
func (d *files) verifyWishes() error {
	pins := map[*cached]int32{}
	for job, w := range d.warm.wishes {
		if w == nil {
			continue
		}
		if d.e.left[job] == 0 {
			return fmt.Errorf("job %d has ended and still wants its input", job)
		}
		for i := range w.wants {
			x := &w.wants[i]
			if (x.readers == 0) != (x.state == dropped) || x.readers < 0 {
				return fmt.Errorf("piece %d is to be read by %d tasks of job %d and has state %d", x.piece, x.readers, job, x.state)
			}
			y := d.nodes[d.home(x.piece)].cache.get(x.piece)
			if (x.state == pinned || x.state == resident) && y == nil {
				return fmt.Errorf("piece %d of job %d is not in memory", x.piece, job)
			}
			if x.state == pinned {
				pins[y]++
			}
		}
	}
	for i := range d.nodes {
		for piece, x := range d.nodes[i].cache.entries {
			if x.pins != pins[x] {
				return fmt.Errorf("piece %d is kept for %d jobs, counted as %d", piece, pins[x], x.pins)
			}
		}
	}
	return nil
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
		if at.Node != d.e.nodes[r.nodes[i]].v.ID || at.Local != local || at.Resident != resident {
			return fmt.Errorf("%s: %+v, but %d bytes are there and %d in memory", t.v.ID, at, local, resident)
		}
	}
	if r.fetch != nil && r.parts&onDisk != 0 && r.fetch.flow.place < 0 {
		return fmt.Errorf("%s waits for a disk that does not read for it", t.v.ID)
	}
	return nil
}

// bytesTo is how many bytes are before the piece that r is at.
func (d *files) bytesTo(r *input) int64 {
	if r.at == r.first {
		return 0
	}
	return d.bytes(r.first, r.at)
}
