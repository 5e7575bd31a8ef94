package workload

import "strconv"

// Unique makes names different from each other: CSV tells jobs apart by them. It holds how
// often each was there.
type Unique map[string]int

// Name returns a name that it has not returned before: this one, or with a number behind it.
func (u Unique) Name(name string) string {
	first := name
	for u[name] > 0 {
		u[first]++
		name = first + "#" + strconv.Itoa(u[first])
	}
	u[name]++
	return name
}
