// Package google reads the trace of a cluster of Google's from 2011 (clusterdata-2011-2).
// Dir and JobsDir read its events, Fold makes tasks of them.
package google
