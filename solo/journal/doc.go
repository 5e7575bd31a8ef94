// Package journal keeps the records of tasks in a database of the state directory.
//
// A [Record] is what is durable of a task apart from its specification. Its form in the
// database, JSON, only grows: a daemon reads what older ones have written, and refuses what newer ones have if it would
// lose something of that (version). A [Batch] is
// written in one durable transaction.
package journal
