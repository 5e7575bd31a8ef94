// Package ring says which nodes have which parts of a distributed file system, after
// VeloxDFS (Ahn et al., sections III.A, III.C and III.D): nodes stand on a ring, and what
// belongs to one has its copies on its predecessor and its successor as well. It is pure:
// tables are values, and there is no clock, no chance, no I/O. Who agrees on tables, carries
// out moves and hears heartbeats is elsewhere.
//
// # Segments
//
// The range of hashes is cut into a fixed number of equal segments. A [Table] says for each
// which node owns it, so a key finds its node with one multiplication and one look into a
// table that everybody has. Owners determine all else: copies of a segment belong to its
// owner, the next member of the ring and the one before, and so on outwards. Where there
// are racks, the walk takes first one node of each (III.D).
//
// VeloxDFS, as Cassandra and Dynamo did at first, gives a node one range of keys that
// touches it. Here what a node owns is any set of segments of equal size, so that all own
// the same whatever the hashes of their names are, and a node that joins can be given some
// of everybody's. Neighbours on the ring stay few, which is what the paper's stealing of
// work and its argument about failures rest on.
//
// A block keeps its segment for ever; see [Table.Place] for how one is chosen. So renaming
// moves nothing, and places of blocks are not stored. How many copies one file wants is not
// known here: fewer than the table has are the first of Targets.
//
// # Epochs and moves
//
// A table never changes. [Table.Apply] makes the next one out of an [Event], and tells
// what is to be moved. The same events make the same bytes everywhere.
//
// A table holds two things about a segment: its owner, that is, where copies belong, and
// its holders, who have all that was settled of it. Whatever belongs and is not held is
// being filled; there is no further state, and plans that were overtaken need no undoing.
// [Table.Moves] follows from a table alone, so who takes over from a leader that died
// needs no list of its. The rules:
//
//   - Who fills gets new blocks at once (WriteTo), and is read from when it has confirmed.
//   - Who holds and no longer should serves on until there are enough who can be read. A
//     confirmation thus lets go one copy for each one made, and the room taken is bounded.
//   - Nothing but a failure takes a copy away of which there are not more than wanted. A
//     dead node that has left its copies is remembered as long as they are of use.
//   - A confirmation names the epoch whose plan it fulfils. If the segment has got another
//     plan since, the node may have dropped it in between, so it counts for nothing.
//   - The places of a new block are kept with it until all of a segment's targets have it
//     and the segment is settled ([Table.Settled]). So a holder has all that is settled, and
//     a node that comes back after a short time is a holder still.
//
// Down moves nothing. Out and Drain give a node's segments to those of the others that hold
// most of them, which are its neighbours, half each: that costs no copy that was not lost. It
// leaves the two with half as much again, which [Level] evens out, in steps of any size.
// Join and Back level for the node that comes; a returning one gets first what it still
// has, and confirms anew what it was filling. There are no states "joining" and "left": a node
// that joins is one that lacks much, and one that has left holds nothing and can be removed.
//
// When nobody can be read for a segment it is [Table.Missing], and its holders bring it
// back. If they never will, [Abandon] says so; nothing else gives data up.
//
// # Judging
//
// [Patience.Judge] decides who is dead from times that it is told. It counts no silence from
// before it listened, or from before a pause of its own; it lets only so many be down or out,
// because more are a sign that the judge is cut off; and a whole rack never goes out.
//
// # Neighbours or not: what it costs
//
// "owns" and "holds": the most of any node, for its part. "sets": different sets of three
// that have all copies of something; "fatal": percent of all threes of nodes whose loss at
// once loses data. "join", "out": copies made, in percent of all there are. "from", "to": the
// nodes that read and write when a node is out. Replication 3. "points" is the ring of the
// textbooks with so many points for a node, "scattered" takes any nodes; Hadoop does so. By
// go test ./ring -run TestPlacement -v:
//
//	nodes                       owns  holds    sets     fatal   join    out  from   to
//	    5  1 point               2.54   1.34       5   50.0000   9.95  26.88     4    3
//	    5  64 points             1.27   1.10      10  100.0000  17.52  21.95     4    4
//	    5  scattered, 4096       1.05   1.01      10  100.0000  16.68  19.85     4    4
//	    5  neighbours, 4096      1.00   1.00       5   50.0000  21.09  20.00     4    4
//	   20  1 point               5.11   2.21      20    1.7544   2.34   9.44     4    3
//	   20  64 points             1.28   1.13     700   61.4035   4.19   5.00    19   19
//	   20  scattered, 4096       1.11   1.06    1107   97.1053   4.68   5.18    19   19
//	   20  neighbours, 4096      1.00   1.00      20    1.7544   7.45   5.00     4    4
//	  100  1 point               4.73   2.58     100    0.0618   0.44   0.52     4    3
//	  100  64 points             1.36   1.15    5815    3.5962   1.02   1.00    92   83
//	  100  scattered, 4096       1.42   1.23    4046    2.5022   0.95   0.95    94   66
//	  100  neighbours, 4096      1.00   1.00     100    0.0618   1.64   1.00     4    4
//	 1000  1 point               8.93   4.71     989    0.0006   0.10   0.29     4    3
//	 1000  64 points             1.40   1.26   40795    0.0246   0.11   0.10   179  111
//	 1000  scattered, 4096       2.93   2.12    4096    0.0025   0.08   0.11    26   13
//	 1000  neighbours, 4096      1.22   1.22    1000    0.0006   0.18   0.10     4    4
//	 1000  neighbours, 65536     1.01   1.01    1000    0.0006   0.17   0.10     4    4
//
// So neighbours lose least often, in the paper's sense: only if three consecutive nodes fail
// at once. When they do they lose much: a segment in so many, not one block. A node that
// is out costs the least possible; one that joins 5 parts where 3 are possible, because its
// neighbours' copies move, too. The price is that a rebuild is the work of four
// nodes, so it takes as long with 1,000 nodes as with 5, where scattered copies are made by
// all. 4,096 segments are enough to some 400 nodes; with more nodes take 65,536.
//
// Weights divide what nodes own. Two thirds of what a node holds is its neighbours', so like
// weights are put beside like. Where they meet, a node of weight 1 beside one of weight 4 holds
// twice its part (TestWeights); when it is full, WriteTo passes over it.
//
// Racks alternate in a first table, and a node that joins is put where they do so best. With as
// many racks as replicas that is not always possible one by one: with three racks the fullest
// node then holds up to 1.34 times the mean, and 20 of 24 sets are left; two, four or more come
// out even (TestGrown). A node whose rack changes stays where it stands on the ring, so racks may
// alternate less well after that.
package ring
