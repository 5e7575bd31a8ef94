// Package peer is the port by which the nodes of a file system reach each other, and nobody
// else does. It knows no names and no blocks: who has something to say to other nodes registers
// a handler (Port.Handle, which includes services of Connect) or takes connections of its own
// (Port.Stream, which quorum/link does), and reaches theirs by Port.Client and Port.Dial.
//
// # Who is a node
//
// Who has the token is. A key of Ed25519 is derived from it (HKDF, [Secret]), and both ends of a
// connection prove in the handshake of TLS 1.3 that they have that key, by certificates that
// say nothing else. So there is no authority whose certificates would have to be made, carried
// about and renewed, and nothing of our own in the handshake: crypto/tls has no pre-shared keys.
// Before a stranger has proved anything, nobody reads what it sends but crypto/tls, which
// bounds messages to 64 KB.
//
// What strangers get is the public key. By it they can try tokens, at their leisure: so tokens
// are random, and those that are short are refused. Who has the token is trusted
// with everything; a node that was taken over can lie about all it likes.
//
// Connections say by ALPN what they are for: HTTP, or the name of a stream.
//
// # Limits
//
// Strangers have some seconds and few places, and one too many takes the place of the one that
// has been there for longest; so does, among nodes, one that has been silent for longest. So 500
// connections that say nothing keep no node out.
package peer
