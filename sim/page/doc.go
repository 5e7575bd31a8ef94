// Package page shows the results of simulations to people: tables for a terminal,
// one HTML page, and files for other programs.
//
// Its input is results of one workload under several policies, on several media, in
// the order in which they are to be shown. All functions leave them as they are, and
// give the same bytes for the same results. Fields that are empty, or not finite,
// are shown as a dash and are empty in files. Names may come from a stranger.
//
// # Comparing
//
// Ratios are to the reference: the first result of the policy kill, or the first
// result when there is none. Response is that of jobs: from the submission of the
// first task to the end of the last (checkpoint-preemption, section 3.3.2). When the
// workload is a synthetic day like Google's, what checkpoint-preemption published
// of its own is shown beside it.
//
// # Files
//
// WriteJSON keeps all of the results, for ReadJSON. WriteCSV writes a row for each
// result and WriteCDFs the distributions of response and slowdown; see there for the
// columns.
package page
