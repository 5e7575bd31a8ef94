// Command headrace-lab runs the experiments on Headrace and shows it at work. The
// product needs nothing of it.
//
//	headrace-lab demo           watch tasks being preempted
//	headrace-lab bench preempt  measure it
//	headrace-lab yarn demo      watch YARN's containers give way
//	headrace-lab --help         everything else
//
// It starts the daemon as everybody does: headrace, which is beside this program or on
// PATH. The tasks of the experiments and the modelled disk are verbs of its own,
// bench-task and slow-disk, which the help leaves out.
//
// Exit codes and output are those of headrace.
package main
