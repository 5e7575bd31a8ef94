package inputs

import (
	"headrace/internal/budget"
	"headrace/warm/master"
)

// paths are what jobs were asked for with, for people and to end them by: as many as there is room for.
type paths struct {
	of    map[master.Name][]string
	quota budget.Tiers
}

func newPaths() paths {
	return paths{of: map[master.Name][]string{}, quota: budget.Tiers{What: "bytes of paths", Each: 1 << 20, Owner: 16 << 20, All: 128 << 20}}
}

// perPath is what a path takes beside its text.
const perPath = 16

func (p *paths) add(name master.Name, more []string) {
	had, bytes := setOf(p.of[name]), sizeOf(p.of[name])
	for _, one := range more {
		n := sizeOf([]string{one})
		if had[one] || p.quota.Take(name.Owner, bytes, n) != nil {
			continue
		}
		had[one], p.of[name] = true, append(p.of[name], one)
		bytes += n
	}
}

// unknown reports whether somebody has asked without a job, and it is not known with which paths: a manager before this one
// was told, or there was no room for them.
func (p *paths) unknown(st *master.Status) bool { return st.Hold && len(p.of[st.Name]) == 0 }

func (p *paths) forget(name master.Name) {
	p.quota.Give(name.Owner, sizeOf(p.of[name]))
	delete(p.of, name)
}

func sizeOf(paths []string) (bytes int64) {
	for _, p := range paths {
		bytes += int64(len(p)) + perPath
	}
	return bytes
}
