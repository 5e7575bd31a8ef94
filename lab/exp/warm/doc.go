// Package warm replays a part of a day of a cluster with its inputs cold, warmed while
// jobs wait, and in memory beforehand (ignem, section IV), and runs single jobs.
package warm
