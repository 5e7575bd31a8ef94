package paper

// Ignem is what ignem measured with the first jobs of a trace of SWIM (sections IV.B to IV.D).
type Ignem struct {
	// Jobs have Input bytes together and come Faster times as fast as in the trace, to Nodes
	// servers, which keep Ahead seconds from a job's submission to its first task.
	Jobs, Nodes   int
	Input, Faster float64
	Ahead         float64
	// Shorter is by how much jobs are shorter, InMemory with all inputs in memory (table I).
	Shorter, InMemory float64
	// Reads is by how much reads of blocks are shorter, FromMemory which part of the blocks
	// came from memory (figure 6).
	Reads, FromMemory float64
}

// OfIgnem returns the numbers.
func OfIgnem() Ignem {
	return Ignem{Jobs: 200, Nodes: 8, Input: 170e9, Faster: 2, Ahead: 10, Shorter: 0.12, InMemory: 0.21, Reads: 0.4, FromMemory: 0.6}
}

// SecondJobHits returns how many of the reads of the second of two identical jobs came from
// memory with data of so many times the page caches, without and with what is in memory
// going first (quartet, figure 1).
func SecondJobHits(factor float64, ordered bool) string {
	switch {
	case factor < 1 && !ordered:
		return "42 to 44 %"
	case factor < 1:
		return "92 to 98 %"
	case !ordered:
		return "below 4 %"
	}
	return "25 to 56 %"
}
