// Package sls reads the jobs of Hadoop's Scheduler Load Simulator. See docs/traces.md.
package sls
