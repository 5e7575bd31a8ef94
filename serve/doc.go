// Package serve has what the services of a daemon share: who is calling and what
// they may see, the kinds of refusals with their codes in the protocol, and checks
// of what requests name.
package serve
