// Package mend changes what CRIU has written, before it is sealed as a checkpoint,
// where a restore would not give back what was dumped.
//
// It is done once, at the dump: what is stored is right, its checksums are made
// afterwards, and criu restore reads it without Headrace too.
package mend
