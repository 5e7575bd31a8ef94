package shim

import (
	"sort"

	"headrace/internal/linux"
	"headrace/proc"
)

// memoryUse is one process and its memory.
type memoryUse struct {
	pid    int
	status linux.Status
}

// memory lists the live processes of the task with their memory, the largest
// first.
func (s *supervisor) memory() ([]memoryUse, error) {
	tree, err := s.tree()
	if err != nil {
		return nil, err
	}
	var out []memoryUse
	for _, p := range tree {
		if linux.Dead(p.State) {
			continue
		}
		st, err := procs.Status(p.PID)
		if linux.Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, memoryUse{p.PID, st})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].status.RSSAnon > out[j].status.RSSAnon })
	return out, nil
}

// pageOut writes at least the given number of bytes of a suspended task to
// swap, or what there is, and returns how much moved.
func (s *supervisor) pageOut(want int64) (int64, error) {
	if err := s.want(stopped); err != nil {
		return 0, err
	}
	use, err := s.memory()
	if err != nil {
		return 0, err
	}
	var moved int64
	for _, u := range use {
		if moved >= want {
			break
		}
		ranges, err := procs.Anonymous(u.pid)
		if linux.Gone(err) {
			continue
		}
		if err != nil {
			return moved, err
		}
		here := int64(0)
		err = linux.AdviseProcess(u.pid, ranges, linux.PageOut, func(int64) bool {
			st, err := procs.Status(u.pid)
			if err == nil {
				here = max(0, u.status.RSSAnon-st.RSSAnon)
			}
			return moved+here < want && s.currentPhase() == stopped
		})
		moved += here
		if err != nil && !linux.Gone(err) {
			return moved, err
		}
	}
	return moved, nil
}

// pageIn starts to bring swapped memory back and returns how much was out. It
// ends early when the task is stopped, or continued, meanwhile.
func (s *supervisor) pageIn() (int64, error) {
	was := s.currentPhase()
	use, err := s.memory()
	if err != nil {
		return 0, err
	}
	var out int64
	for _, u := range use {
		if u.status.Swap == 0 {
			continue
		}
		out += u.status.Swap
		ranges, err := procs.Anonymous(u.pid)
		if err == nil {
			err = linux.AdviseProcess(u.pid, ranges, linux.WillNeed, func(int64) bool { return s.currentPhase() == was })
		}
		if err != nil && !linux.Gone(err) {
			return out, err
		}
	}
	return out, nil
}

// stats measures the task.
func (s *supervisor) stats() (proc.Stats, error) {
	s.stopAgainIfContinued()
	tree, err := s.tree()
	if err != nil {
		return proc.Stats{}, err
	}
	var st proc.Stats
	var live proc.Usage
	var use []memoryUse
	for _, p := range tree {
		if linux.Dead(p.State) {
			continue
		}
		m, err := procs.Status(p.PID)
		if err != nil {
			continue // it has just ended; its usage comes with its death
		}
		live.User += p.User + p.ChildUser
		live.System += p.System + p.ChildSystem
		live.MaxResident = max(live.MaxResident, m.PeakRSS)
		if r, w, err := procs.IO(p.PID); err == nil {
			live.ReadBytes += r
			live.WrittenBytes += w
		}
		use = append(use, memoryUse{p.PID, m})
		st.Dirty += m.RSSAnon + m.RSSShmem + m.Swap
		if p.PID != s.initPID {
			st.Processes++
		}
	}
	st.Resident, st.Swapped = s.resident(use)
	st.Share = s.share(tree)
	s.mu.Lock()
	defer s.mu.Unlock()
	st.State, st.Continued = s.phase.state(), s.continued
	live.MaxResident = max(live.MaxResident, st.Resident)
	s.acct.maxResident = max(s.acct.maxResident, live.MaxResident)
	st.Usage = add(s.acct.total(), live)
	st.SinceSaveCPU = max(0, st.Usage.User+st.Usage.System-s.acct.savedCPU)
	st.SinceSaveWall = max(0, st.Usage.Running-s.acct.savedRunning)
	return st, nil
}

func add(a, b proc.Usage) proc.Usage {
	a.User += b.User
	a.System += b.System
	a.Running += b.Running
	a.OverheadCPU += b.OverheadCPU
	a.ReadBytes += b.ReadBytes
	a.WrittenBytes += b.WrittenBytes
	a.MaxResident = max(a.MaxResident, b.MaxResident)
	return a
}
