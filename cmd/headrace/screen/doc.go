// Package screen shows frames in place on a terminal, and reads single keys from it. However the program stops or ends,
// the terminal is as it was before.
package screen
