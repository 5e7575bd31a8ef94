package dfs

// What clients ask about the blocks of a file takes many times the memory of the answer while that is put together. ManyBlocks is how many blocks an
// answer may name without waiting for other such answers, and MostBlocks how many it may name at all: no client takes more.
const (
	ManyBlocks = 1000
	MostBlocks = 200_000
)
