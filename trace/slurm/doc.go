// Package slurm reads what Slurm's sacct prints of jobs (--parsable2). See docs/traces.md.
package slurm
