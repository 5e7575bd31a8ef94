// Package delta tells a reader that comes again and again what has changed since it came
// last, and all of it when that cannot be known: after a restart of either, or when answers
// were lost. What the keys mean, and what they are worth now, is its caller's business.
package delta
