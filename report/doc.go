// Package report shows results to people: tables for a terminal or a document,
// charts as SVG or as text, and one HTML page that holds all of them.
//
// Table, Timeline, Bars, Stacks, Lines and Panes are plain values that a caller fills and then
// writes. A Page puts them in order between short paragraphs. Each of them is
// also its own JSON form: what was marshalled can be unmarshalled and rendered
// again later.
//
// # Contracts
//
// Times are seconds, sizes are bytes, shares are fractions (0.03 is 3 %). A NaN
// means "not measured": it is shown as a dash, never as zero, and is null in
// JSON. Infinite values are shown as such and not drawn.
//
// The same value always gives the same bytes: nothing here reads a clock, the
// environment or a map's order (Progress alone looks at the clock).
//
// Every text may come from a stranger. In HTML and SVG it is escaped; on a
// terminal, control characters and those that reverse the direction of writing
// are replaced, so that a task's name cannot move the cursor. A page loads
// nothing from anywhere, runs no script, and says so to the browser in a
// Content-Security-Policy.
//
// Rendering never changes the value and needs no lock as long as nobody else
// changes it. Only Progress may be used by several goroutines at once. The
// errors are those of the writer, with the name of what was being written.
//
// # Colours
//
// A colour means one thing on the whole page: suspended segments of a timeline
// and the line of the policy "suspend" share theirs, likewise checkpointed and
// "checkpoint", thrown-away work and "kill", waiting and "wait". Shape (height,
// hatching, markers, dashes) and labels say the same again for those who cannot
// tell colours apart and for print; a test holds the palette to that.
package report
