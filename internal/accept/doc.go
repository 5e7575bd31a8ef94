// Package accept has listeners that go on when the kernel is short of something,
// and descriptors that are kept back for such times; and one for callers of whom nothing
// is known, such as those of /metrics, where the oldest connection gives way (Newest), or the
// one that is idle for longest (Crowd).
package accept
