// Package wire is the protocol of Headrace: the schema (headrace.proto), the
// code generated from it, and the client.
//
// The schema is the contract with everything that is not Go. Fields are never
// renumbered or reused. Regenerate with make generate.
package wire
