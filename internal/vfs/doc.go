// Package vfs is files as a small interface, in three kinds: OS has the real ones; Mem
// keeps files in memory and loses, when a test says that the power has failed, what was
// not made durable; Faulty is another FS whose operations fail when a test says so.
//
// It has what a store of blocks needs and no more: positioned reads and writes, making
// durable, room that is reserved and given back, and names in directories. Beside it
// stands how much room there is, and how much of that is left free ([KeptFree]).
package vfs
