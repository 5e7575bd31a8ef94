// Package belong tells which processes belong to a directory of an experiment, and ends
// them: those of a run that has crashed too, which nobody else knows of.
package belong
