// Package freeport finds ports for servers that cannot be told to choose one
// themselves, or whose port others must know before they listen.
package freeport
