// Package queue says in which order tasks that wait get what is free, how waiting raises
// them and protects them once they run, and which task of a job has its turn where
// several could go.
package queue
