// Package hostile is a standing attack on the daemon of a machine that is shared:
// its test runs root's daemon with the work and the files of other people, lets a
// program of an ordinary user try everything that the protocol and the sockets
// take, and then looks whether anything of the others was read, written, changed or
// named.
//
// Requests are found by reflection. A new one without an entry in requests makes
// the test fail; with it, every field of it is tried with every hostile value that
// fits its type.
package hostile
