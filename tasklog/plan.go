package tasklog

import (
	"cmp"
	"maps"
	"slices"
)

// Floor is what the logs of a user are left however full the file system is, in
// bytes.
const Floor = 100 << 20

// scrap is what a log keeps that has to go altogether: its first and last lines.
const scrap = 128 << 10

// log is the logs of one task.
type log struct {
	uid   uint32
	bytes int64 // on the disk
	ended bool
}

// plan says to how many bytes each log is to be cut; those that stay as they are
// have their bytes. logs of ended tasks are in the order in which these ended. Each
// user may have limit(uid) bytes. missing is how much more ought to be free on the
// file system than is: those who have most give it, down to Floor.
//
// Of a user the logs go first that ended first, then all that are still written are
// cut to the same size. They are cut to a tenth less than they may hold, so that it
// is not to be done again at once.
func plan(logs []log, limit func(uid uint32) int64, missing int64) []int64 {
	users := map[uint32]int64{}
	for _, l := range logs {
		users[l.uid] += l.bytes
	}
	may := level(users, missing)
	keep := make([]int64, len(logs))
	mine := map[uint32][]int{}
	for i, l := range logs {
		keep[i] = l.bytes
		mine[l.uid] = append(mine[l.uid], i)
	}
	for uid, held := range users {
		if most := min(limit(uid), max(may, Floor)); held > most {
			cutUser(logs, mine[uid], keep, held, most-most/10)
		}
	}
	return keep
}

// level returns what nobody may have more of, so that missing bytes become free.
func level(users map[uint32]int64, missing int64) int64 {
	sizes := slices.Sorted(maps.Values(users))
	slices.Reverse(sizes)
	const all = 1<<63 - 1
	if missing <= 0 || len(sizes) == 0 {
		return all
	}
	var above int64
	for i, n := range sizes {
		above += n
		next := int64(0)
		if i+1 < len(sizes) {
			next = sizes[i+1]
		}
		if above-int64(i+1)*next >= missing {
			return (above - missing) / int64(i+1)
		}
	}
	return 0
}

// cutUser fills in what the logs of a user keep, who has held bytes and is to have
// target.
func cutUser(logs []log, mine []int, keep []int64, held, target int64) {
	for _, i := range mine {
		if l := logs[i]; l.ended && held > target && l.bytes > scrap {
			keep[i] = scrap
			held -= l.bytes - scrap
		}
	}
	var open []int
	var rest int64 // of what has ended
	for _, i := range mine {
		if logs[i].ended {
			rest += keep[i]
		} else {
			open = append(open, i)
		}
	}
	if held <= target || len(open) == 0 {
		return
	}
	slices.SortFunc(open, func(a, b int) int { return cmp.Compare(logs[a].bytes, logs[b].bytes) })
	left := max(0, target-rest)
	for n, i := range open { // the smallest first: what it does not need is for the others
		share := left / int64(len(open)-n)
		keep[i] = min(logs[i].bytes, max(scrap, share))
		left = max(0, left-keep[i])
	}
}
