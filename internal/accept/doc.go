// Package accept has listeners that go on when the kernel is short of something,
// and descriptors that are kept back for such times.
package accept
