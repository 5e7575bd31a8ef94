// Package control is the line between a task's supervisor and the daemon: one
// JSON object a line over a unix socket in the task's directory.
//
//	-> {"id":1,"op":"suspend","args":{...}}
//	<- {"id":1,"result":{...}}   or   {"id":1,"error":{"kind":"...","text":"..."}}
//
// Requests on one connection may be answered out of order. The end of the
// connection means that the supervisor has gone; how the task ended is then in
// the task's directory. Only root and the supervisor's own user may connect.
package control
