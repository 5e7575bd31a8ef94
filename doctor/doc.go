// Package doctor finds out what this machine can do for Headrace, what it
// cannot, why that matters, and how to get it.
//
// Every check tries the thing itself where it can be tried: it makes a
// namespace, advises the memory of a child of its own, dumps and restores a
// process. Each is undone at once. All together they take well below a second,
// and CRIU's smoke test some hundred milliseconds on top.
//
// The package only finds out; how findings are shown is up to the caller.
package doctor
