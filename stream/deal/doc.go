// Package deal decides which unit of a stream goes to which consumer. It is pure: no
// I/O, no clock, no goroutines.
//
// A Plan says which units there are. A Dealer is told what happens, by its methods,
// and what is to be done then comes out of Effects, in order. What has to be
// durable first is an Entry, which its user writes between two of its methods:
//
//	Coming    Entry Attached    Attach     a consumer comes
//	Finishing Entry Finished    Finish     its attempt ends
//	Fence     Entry Failed      GiveUp     it is given up
//	Detach    Entry Left                   it has left
//
// Replay takes in the entries that an earlier dealer of the plan had written.
package deal
