// Package serve has what the servers of all daemons share: who is calling, by the
// kernel's word (Peers) or by a token (Token, Strangers), what they may see and how much they may
// hold (Front, Applications), metrics, the kinds of refusals with their codes in the protocol, and
// checks of what requests name.
//
// Whether a caller is served at all is decided here, by the Interceptor. What somebody may
// ask of one task, request or container is decided where that is
// carried out, by its Viewer: what is another's is not found, what only some may do is
// ErrDenied.
package serve
