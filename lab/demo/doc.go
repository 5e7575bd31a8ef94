// Package demo shows people what each policy does to a long job when an urgent one
// arrives: real text, one policy after the other, drawn while it runs.
package demo
