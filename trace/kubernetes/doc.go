// Package kubernetes reads lists of pods as kubectl prints them. See docs/traces.md.
package kubernetes
