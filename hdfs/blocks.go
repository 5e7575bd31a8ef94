package hdfs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"unique"

	"headrace"
)

// pageBytes is of how much of a file one answer tells the blocks. With blocks of 1 MB,
// the smallest that a name node allows if nobody says otherwise, and three replicas that
// is about half of maxAnswer; if it is more than that, less is asked for.
const pageBytes = 16 << 30

// Blocks returns the blocks of a file, in their order, and which machines have a replica;
// Hosts are the names by which data nodes are registered, nearest to this machine first,
// and empty if all replicas are corrupt. Which blocks a file has is told only to a user
// who may read it.
//
// A block that is being written is left out, and so is what has no local file (provided
// storage). Of a file in an encryption zone it has the blocks as they are stored,
// encrypted: that is what readers read. An erasure-coded file is ErrErasureCoded. A file
// of more than 16 GB takes several questions; if it is replaced or cut between them, that
// is ErrChanged.
//
// It asks GET_BLOCK_LOCATIONS, which name nodes answer, HttpFS as a rule not. A file of more than so many blocks is
// ErrManyBlocks; 0: there is no bound.
func (c *Client) Blocks(ctx context.Context, path string, most int) ([]headrace.Block, error) {
	var blocks []headrace.Block
	for end, page := int64(0), int64(pageBytes); ; {
		// What follows the first answer begins with the last byte of the last block, which
		// tells whether that is in the file still.
		at, known := max(0, end-1), max(0, len(blocks)-1)
		var out struct{ LocatedBlocks located }
		q := query("GET_BLOCK_LOCATIONS", "offset", strconv.FormatInt(at, 10), "length", strconv.FormatInt(page, 10))
		_, err := c.call(ctx, http.MethodGet, path, q, &out)
		if errors.Is(err, errAnswer) && page > 2 {
			page /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		last := slices.Clone(blocks[known:])
		if blocks, err = out.LocatedBlocks.add(blocks[:known], offset(last)); err != nil {
			return nil, c.explain(ctx, path, err)
		}
		if len(last) > 0 && (len(blocks) == known || blocks[known].ID != last[0].ID) {
			return nil, fmt.Errorf("blocks of %s: %w", path, ErrChanged)
		}
		if most > 0 && len(blocks) > most {
			return nil, fmt.Errorf("%s: %w, more than %d", path, ErrManyBlocks, most)
		}
		from := end
		if n := len(blocks); n > 0 {
			end = blocks[n-1].Offset + blocks[n-1].Bytes
		}
		switch {
		case end >= out.LocatedBlocks.FileLength:
			return blocks, nil
		case end <= from:
			return nil, fmt.Errorf("blocks of %s: the name node names none at byte %d of %d", path, end, out.LocatedBlocks.FileLength)
		}
		page = min(2*page, pageBytes)
	}
}

// offset returns where the first of blocks begins.
func offset(blocks []headrace.Block) int64 {
	if len(blocks) == 0 {
		return 0
	}
	return blocks[0].Offset
}

// explain says why a file's blocks are not as those of others.
func (c *Client) explain(ctx context.Context, path string, err error) error {
	if errors.Is(err, errGroup) {
		if f, serr := c.Stat(ctx, path); serr != nil {
			return serr
		} else if f.ErasureCoded {
			err = ErrErasureCoded
		}
	}
	return fmt.Errorf("blocks of %s: %w", path, err)
}

// errGroup: a block has a negative ID, as groups of erasure-coded blocks have.
var errGroup = errors.New("it has a block with a negative ID, as no file has that HDFS has made since Hadoop 2: copy it, for example with hdfs dfs -cp")

// located is HDFS's own form of blocks.
type located struct {
	FileLength          int64          `json:"fileLength"` // without a block that is being written
	LocatedBlocks       []locatedBlock `json:"locatedBlocks"`
	LastLocatedBlock    *locatedBlock  `json:"lastLocatedBlock"` // null of an empty file
	IsLastBlockComplete bool           `json:"isLastBlockComplete"`
}

type locatedBlock struct {
	Block struct {
		BlockPoolID     string `json:"blockPoolId"`
		BlockID         int64  `json:"blockId"`
		GenerationStamp int64  `json:"generationStamp"`
		NumBytes        int64  `json:"numBytes"`
	} `json:"block"`
	StartOffset int64 `json:"startOffset"`
	IsCorrupt   bool  `json:"isCorrupt"`
	// StorageTypes are those of Locations, in their order; older name nodes tell none.
	StorageTypes []string `json:"storageTypes"`
	Locations    []struct {
		HostName string `json:"hostName"`
		IPAddr   string `json:"ipAddr"`
	} `json:"locations"`
}

// add appends the blocks of an answer about what comes from byte at on.
func (l located) add(blocks []headrace.Block, at int64) ([]headrace.Block, error) {
	for _, b := range l.LocatedBlocks {
		switch {
		case l.writing(b):
			continue
		case b.Block.BlockID < 0:
			return nil, errGroup
		case b.StartOffset != at || b.Block.NumBytes <= 0 || at > math.MaxInt64-b.Block.NumBytes || b.Block.BlockPoolID == "":
			return nil, fmt.Errorf("the name node names block %d of %q with %d bytes at byte %d, where one at %d is wanted", b.Block.BlockID, b.Block.BlockPoolID, b.Block.NumBytes, b.StartOffset, at)
		}
		at += b.Block.NumBytes
		blocks = append(blocks, headrace.Block{
			ID: headrace.BlockID{Pool: once(b.Block.BlockPoolID), Number: b.Block.BlockID}, Generation: b.Block.GenerationStamp,
			Offset: b.StartOffset, Bytes: b.Block.NumBytes, Hosts: b.hosts(),
		})
	}
	return blocks, nil
}

// writing reports whether a block is being written.
func (l located) writing(b locatedBlock) bool {
	return !l.IsLastBlockComplete && l.LastLocatedBlock != nil && b.Block.BlockID == l.LastLocatedBlock.Block.BlockID
}

// once returns s as a string that equal ones share: answers repeat names with each block.
func once(s string) string { return unique.Make(s).Value() }

func (b locatedBlock) hosts() []string {
	if b.IsCorrupt {
		return nil
	}
	var hosts []string
	for i, at := range b.Locations {
		switch {
		case i < len(b.StorageTypes) && b.StorageTypes[i] == "PROVIDED":
		case at.HostName != "":
			hosts = append(hosts, once(at.HostName))
		case at.IPAddr != "":
			hosts = append(hosts, once(at.IPAddr))
		}
	}
	return hosts
}
