// Package accounts looks users and groups up: in /etc/passwd and /etc/group first, and
// then, where nsswitch.conf names more than files (LDAP, SSSD, systemd), with
// getent(1), which asks whatever the C library would. A static binary cannot do that
// by itself.
//
// A directory service that does not answer costs a caller no more than Patience, and a
// display no more than a second. What it has answered is remembered: who is known for
// five minutes, who is not for one. A question that has failed is not put again for
// ten seconds. What was known counts for an hour longer while it cannot be asked again, and is not
// waited for when another question has just failed.
// Names that nobody has found yet may be made up, by anybody who reaches a server: they have half of the getents and a memory of their
// own. Numbers, groups of accounts that there are, and names that were found do not wait for them.
// Local files are looked at each time, and read when they have changed. The groups of root are those of
// local files alone, so that root never waits.
//
// All groups of a user cost 8 µs of a processor, and 230 µs if the files were read each time. So nobody need remember
// them once more, which would only make them older.
//
// Nobody can be told apart from a service that is down: getent says the same of both.
package accounts
