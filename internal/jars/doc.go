// Package jars keeps copies of jars outside of a checkout. Java's archives of classes are of files at a place, so that one
// is made once for all checkouts of a machine, and not for each.
package jars
