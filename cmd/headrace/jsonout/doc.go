// Package jsonout writes messages of the protocol as JSON for other programs.
//
// The names are those of the protocol's JSON. But sizes and counts of 64 bits are
// numbers, where protobuf writes strings that no program can compare, and beside
// a point in time in milliseconds (submittedMs) stands the same for people
// (submitted, RFC 3339 in UTC; null: not yet, or unknown).
package jsonout
