// Package paper has the numbers that the papers publish, for comparison: those of
// checkpoint-preemption on a day of Google's cluster and on YARN, and those of ignem and
// quartet on reading. It computes nothing but what follows from them.
package paper
