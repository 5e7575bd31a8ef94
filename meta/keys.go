package meta

import "encoding/binary"

// Keys begin with the kind of what they hold. Numbers in them are big-endian, so that
// their order is that of the numbers.
const (
	keyBlock     = 'b' // file, index: block
	keyConfig    = 'c' // 0 the configuration, 1 the counters, 2 safe mode, 3 surveys, 4 numbers of the cache, 5 when all leases were renewed last
	keyDirectory = 'd' // directory: inode
	keyEntry     = 'e' // directory, name: a file, or the number of a directory
	keyGarbage   = 'g' // number: a block whose copies are to be deleted
	keyFile      = 'i' // file: place
	keyOwner     = 'k' // block: owner
	keyLease     = 'l' // holder: lease
	keyHeld      = 'o' // holder, file: nothing
	keyAnswer    = 'r' // client, call: answer given
	keyAnswered  = 't' // number: when, and the key of an answer
	keyPool      = 'p' // name: a cache pool
	keyDirective = 'q' // number: a cache directive
	keySegment   = 's' // segment, block: stamp and size
	keyOpen      = 'u' // file: nothing, an open one
	keyOrphan    = 'x' // directory: nothing; it was deleted, what is below it is to follow
)

func key(kind byte, numbers ...uint64) []byte {
	k := []byte{kind}
	for _, n := range numbers {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// numberAt reads the i-th number of a key.
func numberAt(k []byte, i int) uint64 { return binary.BigEndian.Uint64(k[1+8*i:]) }

// after returns the least key after all that begin with k.
func after(k []byte) []byte {
	end := append([]byte(nil), k...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	panic("meta: no key is after 0xff...")
}

// entryKey is that of a name in a directory. HDFS lists names in the order of signed
// bytes, so all bytes of the name are moved by half a turn.
func entryKey(dir uint64, name string) []byte {
	k := key(keyEntry, dir)
	for i := range len(name) {
		k = append(k, name[i]^0x80)
	}
	return k
}

// nameOf is the name in the key of an entry.
func nameOf(k []byte) string {
	name := make([]byte, 0, len(k))
	for _, b := range k[1+8:] {
		name = append(name, b^0x80)
	}
	return string(name)
}

func leaseKey(holder string) []byte { return append([]byte{keyLease}, holder...) }

// heldKey is that of a file that a holder has open. The holder's length comes first, so
// that no holder's keys lie among those of another.
func heldKey(holder string, numbers ...uint64) []byte {
	k := binary.BigEndian.AppendUint32([]byte{keyHeld}, uint32(len(holder)))
	k = append(k, holder...)
	for _, n := range numbers {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// nothing is the value of keys that say all.
var nothing = []byte{0}

// heldFile is the file in such a key.
func heldFile(k []byte) uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }
