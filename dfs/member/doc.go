// Package member has a node be one among others. It joins them, tells the one that leads the names once a
// second that it is there, and judges who is not when it leads itself; it passes on what clients ask and
// only the one that leads can answer, and carries the messages of the consensus. What it says to other nodes
// goes by dfs/peer, in the words of wire/dfsring.proto. What they agree on is package dfs's matter, what a beat that does not come means
// package ring's.
//
// # Who is meant
//
// Everything that is said names the file system and the node that is meant: requests by two headers, streams by
// their hello. Who is not that refuses, since an address outlives who was there: a first node that has lost its directory founds another
// file system at the same address, and the token does not tell the two apart. Only who joins knows neither, and who
// beats to an address of Config.Seeds does not know the node. Both ends log what is to be done.
//
// # Beats
//
// A node beats to whom it takes for the leader, else to one after the other of all it knows, and learns the
// view from the answer. So one that votes on nothing knows the ring as well, and one that was away
// finds those who are there. A beat says where the node can be reached: one that comes back
// elsewhere needs nothing but to beat. Neighbours on the ring are asked each second whether they answer;
// who does not is accused (ring.Patience). A node that beats and that neither both neighbours nor the leader reach counts as silent.
//
// Who joins, and each beat, says what the node understands (names.Understands; who says nothing understands the first version). Who understands less than is in
// force is refused, with a header by which it knows that it is to end; a node of the first version just logs what to do.
//
// # Calls that are passed on
//
// Who calls is found out by the node that has the connection, and nobody else could. So the leader
// believes the node, which has proved the token; there is no way by which a client's request
// could say that it was passed on. Which groups a user is in, and what it may, the leader looks up.
//
// A call keeps the client's id and its number on the way. So it is passed on again when an answer
// does not come, or the leader is another by then, and has its effect once (package meta's answers that are
// kept). One without a client's id is passed on again only when it surely was not looked
// at. When nobody leads for Config.Wait, the client gets a StandbyException: of all exceptions
// that which clients of an HDFS with several name nodes take as advice to ask another one (RetryPolicies'
// FailoverOnNetworkExceptionRetry, and so hdfs-native and colinmarc/hdfs).
//
// To pass a call on takes more processor time than to answer it, so the configuration that clients are given names the node that
// leads first. Answers are not packed on the way.
//
// Requests of WebHDFS are passed on whole, with their bytes, which so go through two nodes. They
// have no numbers: when a leader is lost on the way, the client is told.
package member
