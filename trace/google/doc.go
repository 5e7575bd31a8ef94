// Package google reads the trace of a cluster of Google's from 2011 (clusterdata-2011-2).
// Dir and JobsDir read its events, Fold makes tasks of them. Priorities stay as published:
// those of package headrace are the same, bands included (headrace.Priority.Band).
package google
