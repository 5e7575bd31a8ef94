package block

// Room is what placing a file needs to know of a disk.
type Room struct {
	// Out: the disk takes nothing.
	Out bool
	// Total and Free are bytes; what writers were promised and do not have yet is not
	// free.
	Total, Free int64
	// Writers is how many blocks are being written.
	Writers int
}

// Place chooses the disk of a new file, or -1: nowhere is room for need bytes beside the
// share of each disk that is to stay free. Among the disks with room it is the one with
// the most of it for each writer, the new one counted; among equals the first.
func Place(disks []Room, need int64, keep float64) int {
	best, most := -1, 0.0
	for i, d := range disks {
		spare := float64(d.Free-need) - keep*float64(d.Total)
		if d.Out || spare < 0 {
			continue
		}
		if each := spare / float64(d.Writers+1); best < 0 || each > most {
			best, most = i, each
		}
	}
	return best
}
