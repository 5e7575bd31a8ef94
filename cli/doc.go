// Package cli is what Headrace's programs have in common at the command line: how they
// are called and end, what values of flags mean, and what they can show.
package cli
