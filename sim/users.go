package sim

import (
	"cmp"
	"slices"
)

// User is what became of the tasks of somebody who submits. Times are seconds.
type User struct {
	Name  string `json:"name"`
	Tasks int    `json:"tasks"`
	// Run is the sum of what tasks had to run, Response that of their times from submission
	// to end, Lost that of the running that was thrown away.
	Run      float64 `json:"run"`
	Response float64 `json:"response"`
	// Bounded is Run with at least ten seconds for each task; 0 in results of before there was it.
	Bounded     float64 `json:"bounded,omitempty"`
	Lost        float64 `json:"lost"`
	Preemptions int     `json:"preemptions"`
}

// Slowdown returns how many times as long tasks took as they ran, all of them together. Each is taken to
// have run for ten seconds at least, or else users whose jobs failed at once would stand before all others.
func (u *User) Slowdown() float64 { return u.Response / max(u.Bounded, u.Run, 1e-3) }

// users counts that for each user; the first is for tasks of which it is not known.
type users []User

// newUsers returns those of the names; none where there are fewer than two to compare.
func newUsers(names []string) users {
	if len(names) < 2 {
		return nil
	}
	u := make(users, 1, len(names)+1)
	for _, n := range names {
		u = append(u, User{Name: n})
	}
	return u
}

// complete counts t, which has ended after a response in seconds.
func (u users) complete(t *task, response float64) {
	if u == nil {
		return
	}
	who := &u[t.spec.User]
	who.Tasks++
	who.Run += t.spec.Run.Seconds()
	who.Bounded += max(t.spec.Run.Seconds(), leastRun)
	who.Response += response
	who.Lost += t.v.Progress.Lost.Seconds()
	who.Preemptions += t.v.Preemptions
}

// mostUsers is how many of the worst-off users are kept.
const mostUsers = 5

// worst returns those of the greatest slowdown, the greatest first.
func (u users) worst() []User {
	if u == nil {
		return nil
	}
	all := slices.DeleteFunc(slices.Clone(u[1:]), func(x User) bool { return x.Tasks == 0 })
	slices.SortStableFunc(all, func(a, b User) int { return cmp.Compare(b.Slowdown(), a.Slowdown()) })
	return all[:min(len(all), mostUsers)]
}
