// Package board shows the tasks and the machine as they were after the last turn of the daemon. Only the daemon's loop
// publishes; readers, however slow, need nothing from it and never make it wait.
package board
