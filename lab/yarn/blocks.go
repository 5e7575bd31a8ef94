package yarn

import (
	"context"
	"fmt"
	"os"
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
				r, err := m.replica(b)
				if err != nil {
					return nil, err
				}
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// Files returns the files of replicas, for each machine as it sees them.
func (h *HDFS) Files(all []Replica) [][]string {
	out := make([][]string, len(h.machines))
	for _, r := range all {
		out[r.Machine] = append(out[r.Machine], r.Data, r.Checksum)
	}
	return out
}

// replica is where a DataNode of Hadoop 2 or 3 keeps one that is complete: on one of its volumes.
func (m *machine) replica(b headrace.Block) (Replica, error) {
	below := filepath.Join("current", b.ID.Pool, "current", "finalized",
		fmt.Sprint("subdir", b.ID.Number>>16&0x1f), fmt.Sprint("subdir", b.ID.Number>>8&0x1f), fmt.Sprint("blk_", b.ID.Number))
	r := Replica{Block: b, Machine: m.index}
	err := m.ns.do(func() (err error) {
		for _, volume := range m.dataDirs() {
			r.Data = filepath.Join(volume, below)
			if _, err = os.Stat(r.Data); err == nil {
				break
			}
		}
		return err
	})
	r.Checksum = fmt.Sprintf("%s_%d.meta", r.Data, b.Generation)
	return r, err
}
