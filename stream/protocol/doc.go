// Package protocol is how a consumer of a stream talks to the daemon: frames
// over a unix stream socket, small and easy to read in any language.
//
// # Frames
//
// A frame is a length (4 bytes), a type (1 byte) and a body. The length counts
// the body only. All integers are big-endian and unsigned unless said
// otherwise; a string is a length (4 bytes) and that many bytes. Unknown types
// end the connection. A body has at most MaxBody bytes, that of a consumer's messages but
// Hello and Given MaxShort.
//
// # Life of a connection
//
//	consumer                         daemon
//	Hello                      ->
//	                           <-    Welcome        or Error
//	Next                       ->
//	                           <-    Arena, File    when that is new to this consumer
//	                           <-    Unit Piece* End
//	Consumed                   ->                   as often as it likes
//	Next                       ->
//	                           <-    EOF            nothing is left
//	Finish                     ->
//	                           <-    Finished       with code 0 recorded durably
//
// A unit is the smallest thing that is dealt: some whole records, one small
// batch of files, one compressed file, or the name of one file. Its bytes come
// as pieces of shared memory or of files, in order. A piece may be read until
// Consumed says that it has been, then never again. A consumer asks for the next
// unit when it has consumed the last one; it has one unit at a time.
//
// A consumer that lost its connection, because it was suspended or the daemon
// was restarted, connects again and says in Hello which units its attempt has
// been given and how far it is in the last of them. The daemon goes on there:
// unless the last unit was consumed whole, it comes again after Welcome, without
// a Next, with the pieces from that position on and an End for all of it. A
// consumer that has come to need no more of it meanwhile says Consumed, and
// passes over what comes. The consumer's list is the truth for its attempt; the beginning
// of one of more than some 16 million units comes in frames of its own, Given, before Hello.
// What was under way is asked for again: a Next that had no answer, results
// other than 0, a Finish. A Finish that was recorded already is recorded again. Who was
// restored from a checkpoint that is older than its Finish goes on like anybody.
// Error is final; a daemon that cannot take a consumer just now closes the
// connection without a word, and the consumer comes again a little later.
//
// A consumer closes one connection before it opens another. Still the daemon may
// come to read the Hello of an old one after that of a new one. So it looks
// whether the connection is still open when it takes a Hello for true, and leaves
// alone what the consumer has closed (Conn.HungUp). A number in Hello would not
// do: a consumer may be restored from an earlier state.
//
// # Memory and files
//
// Arena carries a file descriptor (SCM_RIGHTS, with the first byte of the
// frame) that is mapped read-only; its memory cannot shrink (F_SEAL_SHRINK). It
// is valid until Drop or the end of the connection.
//
// File carries a descriptor of an input file, open for reading. The consumer reads
// the bytes at the offset of the piece, or splices them into a pipe; it must not map
// them, because the file may shrink. When it has read a piece it looks whether
// the file's size and time of modification are still those of the frame (the file
// may have grown); if not, the attempt has to fail.
//
// A consumer stops reading before it closes a connection, and before it says
// Hello on another one. A daemon that ends a connection itself must leave the
// pieces that it had sent on it alone until one or the other has happened, or
// the consumer is gone.
package protocol
