// Package sample computes what is said of the runs of an experiment: medians and
// ranges, ratios formed within each repeat, and whether an aim is met.
//
// A run is a struct of its experiment, whose fields are what was varied and what was
// measured; a measure is a function of it. Whatever has no number is NaN, and does not
// count.
package sample
