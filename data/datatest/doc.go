// Package datatest makes the calls of a DataService that tests of several packages need.
// Nothing but tests imports it.
package datatest
