// Package split reads the flags that say how an input is dealt to tasks, and what ends a record.
package split
