package yarn

import (
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/lab/slowdisk"
)

// Machines with a disk, memory and a network of their own, under HDFS and YARN.
func TestHDFSCluster(t *testing.T) {
	needMachines(t)
	model := slowdisk.HardDisk()
	begin := time.Now()
	c := startTest(t, Options{Machines: true, Nodes: 3, Mode: Wait, Disk: &model, LabProgram: testkit.Lab(t), MachineMemory: 2 << 30,
		HDFS: &HDFSOptions{BlockSize: 1 << 20, ShortCircuit: true, Racks: 2}})
	t.Logf("up after %v", time.Since(begin))
	t.Logf("%+v", must(c.HDFS.State(t.Context()))(t))
}
