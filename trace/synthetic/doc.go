// Package synthetic makes up workloads: Day is the parameters of a generated day, GoogleDay
// those of one that resembles what is published of Google's.
package synthetic
