package source

import (
	"context"
	"os"
	"strings"

	"headrace/disk"
	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/stream/protocol"
)

// Source is where files are. It is safe for concurrent use.
type Source interface {
	// Find calls found for each file that paths mean, in their order. It may be read
	// by the owner; it is open during the call only.
	Find(ctx context.Context, owner linux.Credentials, paths []string, found func(path string, f File) error) error
	// Open opens a file that was found. It fails if it is not the one that it was; Dev 0:
	// on whatever device that is now.
	Open(path string, was fileset.Was, owner linux.Credentials) (File, error)
	// Reader takes turns at a device of a file, as one of those of a user. Name says for
	// what, for people. The caller closes it.
	Reader(uid uint32, d disk.Device, name string) *disk.Reader
	// Refresh brings up to date what is known of files that are watched.
	Refresh(ctx context.Context) error
}

// File is an open file. It is safe for concurrent use.
type File interface {
	Was() fileset.Was
	// Learn reads the end of the file, if Was does not have it: what is written to it later is told from
	// what is appended by that. It fails when the file is not what it was any more.
	Learn() error
	// ReadFull reads all of p. It fails when the file is not what it was any more.
	ReadFull(p []byte, off int64) error
	// ReadAhead begins to read a small part of it, without waiting.
	ReadAhead(off, n int64)
	// Resident returns how many bytes of a range are in the memory of this machine.
	Resident(r pagecache.Range) (int64, error)
	// Watch follows how much of it is, from now on, also when the file is closed.
	Watch() (pagecache.Watched, error)
	// Device returns what it lies on. Seeks tells whether that has a head to be spared.
	Device() (d disk.Device, seeks bool, err error)
	// Shared returns what consumers may read themselves, as long as the file is open; nil:
	// they cannot.
	Shared() *os.File
	Close() error
}

// Codec tells by name and first bytes whether a file is compressed: a file that is
// neither or only one of them is taken as it is.
func Codec(path string, f File) (protocol.Codec, error) {
	var magic string
	codec := protocol.Plain
	switch {
	case strings.HasSuffix(path, ".gz"), strings.HasSuffix(path, ".tgz"):
		codec, magic = protocol.Gzip, "\x1f\x8b"
	case strings.HasSuffix(path, ".zst"), strings.HasSuffix(path, ".zstd"):
		codec, magic = protocol.Zstd, "\x28\xb5\x2f\xfd"
	}
	if codec == protocol.Plain || f.Was().Size < int64(len(magic)) {
		return protocol.Plain, nil
	}
	head := make([]byte, len(magic))
	if err := f.ReadFull(head, 0); err != nil || string(head) != magic {
		return protocol.Plain, err
	}
	return codec, nil
}
