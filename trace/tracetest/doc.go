// Package tracetest has what the tests of all formats of traces need.
package tracetest
