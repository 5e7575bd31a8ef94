// Package rumen reads the job traces of Hadoop's Rumen. See docs/traces.md.
package rumen
