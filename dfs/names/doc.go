// Package names is what the nodes of a file system agree on, beside names and blocks: the
// ring's table, who its members are, and who of them votes.
package names
