package inputs

import (
	"time"

	"headrace/warm/master"
)

// maxLease bounds how long the input of a job may stay that nobody speaks of any more.
const maxLease = 24 * time.Hour

// leases are until when jobs go on that no scheduler names: whoever runs them says again and again
// that they are there, and when that process has died nobody does. Nodes know how long each is (master.Facts), and tell the manager that comes after.
type leases map[master.Name]time.Time

// leaseOf returns how long one is; 0: there is none.
func leaseOf(seconds float64) (time.Duration, error) {
	if !(seconds >= 0 && seconds <= maxLease.Seconds()) { // nor NaN
		return 0, invalid("a lease of %v seconds; give a number up to %v", seconds, maxLease.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// renew extends the lease of a job; an earlier one that is longer stays.
func (l leases) renew(name master.Name, lease time.Duration, now time.Time) {
	if until := now.Add(lease); lease > 0 && until.After(l[name]) {
		l[name] = until
	}
}

// expire ends the jobs whose lease is over. in.mu is held.
func (in *Inputs) expire(now time.Time) {
	for name, until := range in.leases {
		if now.Before(until) {
			continue
		}
		delete(in.leases, name)
		if s, err := in.master.Evict(name, now); err == nil {
			in.paths.forget(name)
			in.log.Info("nobody has spoken of the job for as long as it asked for, its input is not kept in memory any more",
				"job", name.Job, "user", name.Owner, "bytes", s.Pinned)
		}
	}
}
