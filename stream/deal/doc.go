// Package deal decides which unit of a stream goes to which consumer. It is pure: no
// I/O, no clock, no goroutines.
//
// A Plan says which units there are. A Dealer is told what happens, by its methods,
// and what is to be done then comes out of Effects, in order. What has to be
// durable first is an Entry, which its user writes, and then tells with Written:
//
//	Coming     Attached    Written, Attach    a consumer comes
//	Finishing  Finished    Written            its attempt ends
//	Fence      Failed      Written            it is given up
//	Detach     Left                           it has left
//
// Replay takes in the entries that an earlier dealer of the plan had written.
package deal
