// Package convert maps between the protocol and the vocabulary: names of states,
// operations and commands, amounts, and what is known of tasks and nodes.
//
// A function is named after what it makes; those that make something of the protocol
// end in Message, those that fill in a part of it begin with Set. What comes from the
// protocol was sent by somebody else: amounts are brought within reason, and what this
// version does not know has no consequences.
package convert
