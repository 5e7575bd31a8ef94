package yarn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

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

// replicaTime is how long HDFS gets to complete the replicas of a file.
const replicaTime = 2 * time.Minute

// Replicas returns the complete replicas of a file's blocks, block by block and those of
// one block by machine, when the NameNode knows of so many of each block: a file is written
// when it knows of one.
func (h *HDFS) Replicas(ctx context.Context, path string, each int) (all []Replica, err error) {
	client, err := h.Client()
	if err != nil {
		return nil, err
	}
	err = await(ctx, fmt.Sprintf("wait for %d replicas of each block of %s", each, path), replicaTime, func(ctx context.Context) (bool, error) {
		blocks, err := client.Blocks(ctx, path, 0)
		if err != nil {
			return false, &fatal{err}
		}
		all = nil
		for _, b := range blocks {
			if len(b.Hosts) != each {
				return false, fmt.Errorf("block %d is on %v", b.ID.Number, b.Hosts)
			}
			for _, m := range h.machines {
				if slices.Contains(b.Hosts, m.host) {
					r, err := m.replica(b)
					if err != nil {
						return false, &fatal{err}
					}
					all = append(all, r)
				}
			}
		}
		return true, nil
	})
	return all, err
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
