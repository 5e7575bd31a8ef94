package migrate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"headrace/engine/yarn"
)

const (
	manifestName    = "manifest"
	manifestMagic   = "headrace-archive"
	manifestVersion = 1
	// maxManifest limits what is read. A block of data takes 75 bytes, a file about
	// 150.
	maxManifest = 256 << 20

	// blockSize is the number of bytes of the stream that are hashed, and compressed,
	// together. The last block of an entry may have fewer.
	blockSize = 4 << 20
	// maxStored is the size of a block that does not become smaller by compression.
	maxStored = blockSize + 64<<10
	// partBlocks is the number of blocks in a data object: 128 MB, as in HDFS's blocks.
	partBlocks = 32
	maxParts   = 1 << 20
)

// Description is what an entry says of itself.
type Description struct {
	// Key is what a relaunch of the same command will ask for; see yarn.Launch.Key.
	Key string `json:"key"`
	// By is the machine that has made it.
	By string `json:"by"`
	// App and Container are what it was there.
	App       string `json:"app,omitempty"`
	Container string `json:"container,omitempty"`
	User      string `json:"user,omitempty"`
	UID       uint32 `json:"uid"`
	// Command is what the key was made from, for people.
	Command yarn.Command `json:"command"`
	// Fingerprint is what must be alike where it is restored.
	Fingerprint Fingerprint `json:"fingerprint"`
	// Meta is the caller's own.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// Manifest describes an entry whole. It is written last, and carries a mark that
// only holders of the cluster's token can make; with the hashes of all blocks in
// it, that vouches for every byte of the entry.
type Manifest struct {
	Description
	ID   string    `json:"id"`
	Made time.Time `json:"made"`
	// Files are in the order of the data.
	Files []File `json:"files"`
	// Raw is the number of bytes of the stream, Size of the data objects.
	Raw        int64 `json:"raw"`
	Size       int64 `json:"size"`
	Compressed bool  `json:"compressed,omitempty"`
	// Parts are the numbers of blocks in the data objects.
	Parts  []int   `json:"parts"`
	Blocks []Block `json:"blocks"`
}

// Section says what a file of an entry is for.
type Section string

const (
	// InImage: part of a chain of images; the path is SEQUENCE/NAME.
	InImage Section = "image"
	// InPlace: recreated at the same absolute path.
	InPlace Section = "place"
)

// File is one file of an entry.
type File struct {
	In   Section  `json:"in"`
	Path string   `json:"path"`
	Type FileType `json:"type"`
	// Size of a regular file, holes included.
	Size int64 `json:"size,omitempty"`
	// Mode are the permissions, with set-id and sticky bits as in stat(2).
	Mode uint32 `json:"mode,omitempty"`
	// MTime is in nanoseconds since 1970.
	MTime int64 `json:"mtime,omitempty"`
	// Link is the target of a symbolic link, as it is.
	Link string `json:"link,omitempty"`
}

// FileType is the type of a file.
type FileType string

const (
	Regular   FileType = "file"
	Directory FileType = "dir"
	Symlink   FileType = "link"
	FIFO      FileType = "fifo"
)

// Block is some bytes of a data object: at most blockSize of the stream, maybe
// compressed.
type Block struct {
	Size int // as stored
	// Sum is the hash of what is stored. It is SHA-256, not a faster one, because
	// whoever can write to the place must not be able to make other data fit.
	Sum [sha256.Size]byte
}

// MarshalText writes SIZE:HASH.
func (b Block) MarshalText() ([]byte, error) {
	t := strconv.AppendInt(nil, int64(b.Size), 10)
	return hex.AppendEncode(append(t, ':'), b.Sum[:]), nil
}

// UnmarshalText reads what MarshalText writes.
func (b *Block) UnmarshalText(t []byte) error {
	size, sum, _ := bytes.Cut(t, []byte{':'})
	n, err := strconv.Atoi(string(size))
	if err != nil || n < 1 || n > maxStored || len(sum) != 2*sha256.Size {
		return fmt.Errorf("impossible block %.100q", t)
	}
	b.Size = n
	_, err = hex.Decode(b.Sum[:], sum)
	return err
}

func partName(i int) string { return fmt.Sprintf("data.%06d", i) }

// encode returns the manifest with its mark: a first line with magic, version and
// mark, then JSON.
func (m *Manifest) encode(s sealer) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(body) > maxManifest-200 {
		return nil, fmt.Errorf("a manifest of %d bytes is too long", len(body))
	}
	head := fmt.Appendf(nil, "%s %d ", manifestMagic, manifestVersion)
	return fmt.Appendf(nil, "%s%x\n%s", head, s.mark(head, body), body), nil
}

// parseManifest checks the mark before it looks at anything else.
func parseManifest(s sealer, b []byte) (*Manifest, error) {
	head, body, _ := bytes.Cut(b, []byte{'\n'})
	words := strings.Split(string(head[:min(len(head), 200)]), " ")
	if len(words) != 3 || words[0] != manifestMagic {
		return nil, fmt.Errorf("%w: not a manifest", ErrCorrupt)
	}
	version, err := strconv.Atoi(words[1])
	if err != nil || version < 1 {
		return nil, fmt.Errorf("%w: not a manifest", ErrCorrupt)
	}
	if version > manifestVersion {
		return nil, fmt.Errorf("%w: format %d, known is %d", ErrVersion, version, manifestVersion)
	}
	if !s.made(words[2], []byte(words[0]+" "+words[1]+" "), body) {
		return nil, ErrForged
	}
	m := new(Manifest)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrCorrupt, err)
	}
	return m, nil
}

// check finds contradictions in a manifest that carries our mark.
func (m *Manifest) check() error {
	if err := errors.Join(checkKey(m.Key), checkID(m.ID)); err != nil {
		return err
	}
	var size, blocks int64
	for _, b := range m.Blocks {
		size += int64(b.Size)
		if !m.Compressed && b.Size > blockSize {
			return fmt.Errorf("a block of %d bytes that is not compressed", b.Size)
		}
	}
	for _, n := range m.Parts {
		if n < 1 || n > maxParts {
			return fmt.Errorf("a part of %d blocks", n)
		}
		blocks += int64(n)
	}
	want := (m.Raw + blockSize - 1) / blockSize
	if m.Raw < 0 || m.Size != size || blocks != int64(len(m.Blocks)) || want != blocks {
		return fmt.Errorf("%d bytes, %d stored, in %d parts and %d blocks contradict each other", m.Raw, m.Size, len(m.Parts), len(m.Blocks))
	}
	seen := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		if err := f.check(); err != nil {
			return err
		}
		id := string(f.In) + ":" + f.Path
		if seen[id] {
			return fmt.Errorf("%q is there twice", f.Path)
		}
		seen[id] = true
	}
	return nil
}

// rawSize returns the number of bytes of the stream in a block.
func (m *Manifest) rawSize(block int) int {
	return int(min(blockSize, m.Raw-int64(block)*blockSize))
}

func (f File) check() error {
	bad := func(why string) error { return fmt.Errorf("file %.200q: %s", f.Path, why) }
	switch {
	case !utf8.ValidString(f.Path) || strings.ContainsRune(f.Path, 0) || len(f.Path) > 4095:
		return bad("impossible name")
	case f.Size < 0 || f.Type != Regular && f.Size != 0:
		return bad("impossible size")
	case f.Mode&^0o7777 != 0:
		return bad("impossible mode")
	case (f.Type == Symlink) != (f.Link != "") || len(f.Link) > 4095 || strings.ContainsRune(f.Link, 0):
		return bad("impossible link")
	}
	switch f.Type {
	case Regular, Directory, Symlink, FIFO:
	default:
		return bad("unknown type")
	}
	switch f.In {
	case InImage:
		if f.Type != Regular || !imageName(f.Path) {
			return bad("not a name in an image")
		}
	case InPlace:
		if !path.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path || f.Path == "/" {
			return bad("not a clean absolute path")
		}
	default:
		return bad("unknown section")
	}
	return nil
}

func imageName(name string) bool {
	dir, file, ok := strings.Cut(name, "/")
	return ok && len(dir) == 6 && strings.Trim(dir, "0123456789") == "" && file != "" && file != "." && file != ".." && !strings.Contains(file, "/")
}

func checkKey(key string) error { return checkHex("key", key, 64) }

func checkID(id string) error { return checkHex("id", id, 32) }

func checkHex(what, s string, length int) error {
	if len(s) != length || strings.Trim(s, "0123456789abcdef") != "" {
		return fmt.Errorf("%.80q is not the %s of an archived checkpoint (%d hexadecimal digits)", s, what, length)
	}
	return nil
}
