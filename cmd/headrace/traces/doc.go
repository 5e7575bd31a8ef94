// Package traces has the verb trace: it names, opens, describes, converts and makes up
// traces of clusters. load.go has the flags that say which part of a trace is taken, for
// whoever runs one.
package traces
