// Package limits says what a user may take of a machine that is shared.
//
// A Table holds the limits of everybody: those of all users, of groups, and of
// single users. A user's own section counts before those of the user's groups,
// these before the one for all, key by key; of several groups the most generous
// counts. Root and the daemon's own user have none. What forbids something to a name
// that nobody knows counts for all who may be meant, until somebody does.
//
// Three rules follow from it, each pure: what is refused when it is handed in or
// asked for (Limits.Refuse, RefuseGrace), what waits because its owner has as much
// running as they may (Hold), and what counts one step less urgent because its owner
// has more than an equal share while others wait with less (Beyond).
//
// A Table never changes. A Source is the Table in force, which a daemon may
// replace while others ask it.
package limits
