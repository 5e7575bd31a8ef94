// Package manager is the daemon of a cluster whose scheduler is another one, such as
// YARN: it knows what the nodes report, decides by package policy how containers give
// way that the scheduler has chosen, and has the nodes do it.
//
// # State
//
// All that it knows comes from its callers. Nodes join by a stream, on which they get
// orders, and report every second; after a restart of the manager they tell it again.
// Orders that were given before are then not known any more; what they have come to is
// in the reports. Which end a container has told by its progress, by whomever, its node writes down and
// tells again: one that has outlived it is not to be believed again. For some seconds after its start a container that is not known is one
// whose node has not come back yet: it is to wait, not to be given up. Which applications have ended for good their scheduler tells
// a manager that was started again as well; nodes have archived checkpoints of these removed (Ended), and of no others: that an
// application is not named among those that run says nothing, as its scheduler may have been started again.
//
// A victim that cannot be told anything is given some time (standing.go): one that has not
// begun, that is not known, or whose node is away. Then the answer names no mechanism, and
// its scheduler does what it is told to do without an answer. One that has ended is never
// given up: its end is remembered for some minutes.
//
// An order is outstanding from the moment it is given until its result comes with a
// report, its container has ended, its node is away, or its time is over: ten times what
// was expected and a minute, and ten minutes more while its node is at something with the
// container. When these are over too the container counts as stuck: nothing is said to be
// done to it, and there is no answer about it, until its node tells something else. So does
// one at which its node has been for an hour without an order from here. At most one order
// per container is; meanwhile the container's field ordered names it. When a node joins
// again before it counts as away, it gets its outstanding orders again, by the same
// numbers, and knows by these which it has had.
//
// A node is away when it has had no stream for a moment, or has sent no report for
// some seconds. Of its containers the last that was heard is shown. A node that has
// been away for an hour is forgotten, or when a person asks for it. Reports have numbers: one that was given up may
// come after later ones, and is refused then.
//
// While it drains every container is told to go on, and nothing gives way.
//
// # Versions
//
// Every change of what Containers tells raises the version, which begins at the wall
// clock in microseconds. A version that this manager has not given is refused: whoever asks with one has
// told an earlier manager what this one does not know. A caller that waits is answered some milliseconds after the
// first change, so that changes that come together are told together.
//
// # Concurrency
//
// One mutex guards everything (cluster); it is held while the policy decides, never
// while something is sent or received, nor while a list of all containers is put in order. Below it each table knows those before it only:
// members (who is there), containers (what they run), orders (what they were told). Messages that have been handed out are never
// changed.
//
// # Trust
//
// Whoever presents the token may do everything; nobody else may do anything but ask
// whether the manager is there. What callers send is bounded, not believed to be sane.
// Connections on which nobody has shown the token are few, short, and give way to later
// ones (serve.Strangers).
package manager
