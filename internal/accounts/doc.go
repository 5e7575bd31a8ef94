// Package accounts looks users and groups up: in /etc/passwd and /etc/group first, and
// then, where nsswitch.conf names more than files (LDAP, SSSD, systemd), with
// getent(1), which asks whatever the C library would. A static binary cannot do that
// by itself.
//
// A directory service that does not answer costs a caller no more than Patience, and a
// display no more than a second. What it has answered is remembered: who is known for
// five minutes, who is not for one. A question that has failed is not put again for
// ten seconds. What was known counts for an hour longer while it cannot be asked again.
// Local files are read each time. The groups of root are those of local files alone,
// so that root never waits.
//
// Nobody can be told apart from a service that is down: getent says the same of both.
package accounts
