package yarn

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"headrace"
)

// A Replica is the copy of a block that a machine has.
type Replica struct {
	Block headrace.Block
	// Machine is which.
	Machine int
	// Data and Checksum are its files, as that machine sees them (On).
	Data, Checksum string
}

// Replicas returns the complete replicas of a file's blocks, block by block and those of
// one block by machine.
func (h *HDFS) Replicas(ctx context.Context, path string) ([]Replica, error) {
	client, err := h.Client()
	if err != nil {
		return nil, err
	}
	blocks, err := client.Blocks(ctx, path)
	if err != nil {
		return nil, err
	}
	var all []Replica
	for _, b := range blocks {
		for _, m := range h.machines {
			if slices.Contains(b.Hosts, m.host) {
				all = append(all, m.replica(b))
			}
		}
	}
	return all, nil
}

// replica is where a DataNode of Hadoop 2 or 3 keeps one that is complete.
func (m *machine) replica(b headrace.Block) Replica {
	data := filepath.Join(m.dataDir(), "current", b.ID.Pool, "current", "finalized",
		fmt.Sprint("subdir", b.ID.Number>>16&0x1f), fmt.Sprint("subdir", b.ID.Number>>8&0x1f), fmt.Sprint("blk_", b.ID.Number))
	return Replica{Block: b, Machine: m.index, Data: data, Checksum: fmt.Sprintf("%s_%d.meta", data, b.Generation)}
}
