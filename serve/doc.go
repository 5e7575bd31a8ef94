// Package serve has what the servers of all daemons share: who is calling, by the
// kernel's word (Peers) or by a token (Token), what they may see and how much they may
// hold (Front), metrics, the kinds of refusals with their codes in the protocol, and
// checks of what requests name.
package serve
