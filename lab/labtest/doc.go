// Package labtest is what tests of several experiments need. Nothing but tests imports
// it.
package labtest
