package yarn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"headrace/lab/slowdisk"
)

// Mode says what happens when room is needed that others have.
type Mode int

const (
	// Kill is YARN's own preemption.
	Kill Mode = iota
	// Wait is YARN without preemption.
	Wait
	// Headrace is YARN's own preemption with Headrace's plug-ins.
	Headrace
)

func (m Mode) String() string {
	switch m {
	case Kill:
		return "kill"
	case Wait:
		return "wait"
	case Headrace:
		return "headrace"
	}
	return fmt.Sprintf("mode %d", int(m))
}

// Options describes a cluster. The zero value is a cluster with stock preemption,
// one NodeManager of 2 GB and the queues low and high.
type Options struct {
	Mode Mode
	// Jars as from Find; nil: Find is called.
	Jars *Jars
	// Dir is where the cluster makes its private directory; empty: os.TempDir.
	Dir string
	// Keep leaves the directory when the cluster stops.
	Keep bool

	// Nodes is how many NodeManagers; 0: 1.
	Nodes int
	// Machines makes each NodeManager and its node daemon like a machine of its own:
	// their directories are at the same paths everywhere, each has its own, and none
	// sees those of another. Everything else is common. It takes root.
	Machines bool
	// MachineMemory bounds what everything on a machine has in memory together, page cache
	// included: a cgroup for the daemons, containers and commands of each. It takes
	// Machines. In bytes; 0: no bound.
	MachineMemory int64
	// Disk puts a modelled disk (package slowdisk) into each machine, which holds what HDFS
	// stores there. It takes Machines. Nil: a directory.
	Disk *slowdisk.Model
	// LocalOnDisk has the disk hold the local directories of NodeManagers too, with what
	// tasks spill and shuffle.
	LocalOnDisk bool
	// LabProgram serves the disks; needed for Disk.
	LabProgram string
	// HDFS adds one, which becomes the default file system: a NameNode beside the
	// ResourceManager and a DataNode on each machine, which has a network of its own, too,
	// so that hosts differ as they do elsewhere. It takes Machines. Nil: none.
	HDFS *HDFSOptions

	// NoYARN leaves out YARN's own daemons, where HDFS is all that is wanted.
	NoYARN bool
	// Compiled lets virtual machines compile as they do by default, and Hadoop's daemons have
	// more memory: for those whose processor time is measured. Else they start quickly and stay
	// small.
	Compiled bool

	// Memory and VCores of one NodeManager, for YARN to give out; 0: 2048 MB, 8.
	Memory, VCores int
	// Heartbeat of the NodeManagers; 0: 200 ms.
	Heartbeat time.Duration
	// Queues below root; nil: LowAndHigh.
	Queues []Queue
	// IntraQueue lets applications of higher priority preempt others of their queue.
	IntraQueue bool
	// Properties are added to yarn-site.xml, or replace those there.
	Properties map[string]string
	// DefaultFS is the file system where there is no HDFS, as Hadoop names it; empty: that of
	// this machine.
	DefaultFS string

	// User is the account that YARN runs as: its daemons, and the clients that submit
	// applications. Headrace's daemons stay with this process's user, which must then
	// be root. Empty: YARN runs as that user, too.
	User string

	// Wrap is put before the command of every process, which it must become (exec).
	Wrap []string

	// Binary is headrace; the shim is beside it. Needed for the mode Headrace.
	Binary string
	// NoDaemons leaves manager and node daemons out in the mode Headrace: they may be
	// started later.
	NoDaemons bool
	// Beside allows for manager and node daemons in the other modes too, which are started
	// later: YARN knows nothing of them, and they of files alone.
	Beside bool
	// CountTraffic has what node daemons and manager say to each other counted (Use).
	CountTraffic bool
	// Policy of the manager; empty: its default.
	Policy string
	// ManagerFlags and NodeFlags are added to the command lines.
	ManagerFlags, NodeFlags []string
}

// Queue is one of the capacity scheduler's.
type Queue struct {
	Name string
	// Capacity is the share that it is entitled to in percent; all add up to 100. It
	// may use everything that others do not.
	Capacity int
}

// LowAndHigh returns two queues: almost everything belongs to high, and low may use it
// as long as high does not.
func LowAndHigh() []Queue {
	return []Queue{{Name: "low", Capacity: 10}, {Name: "high", Capacity: 90}}
}

func (o *Options) complete() error {
	if o.Jars == nil {
		jars, err := Find()
		if err != nil {
			return err
		}
		o.Jars = jars
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	o.Dir = dir
	o.Nodes = orDefault(o.Nodes, 1)
	o.Memory = orDefault(o.Memory, 2048)
	o.VCores = orDefault(o.VCores, 8)
	o.Heartbeat = orDefault(o.Heartbeat, 200*time.Millisecond)
	if o.Queues == nil {
		o.Queues = LowAndHigh()
	}
	if o.Nodes < 1 || o.Nodes > 200 {
		return fmt.Errorf("%d NodeManagers: want 1 to 200", o.Nodes)
	}
	if err := o.completeMachines(); err != nil {
		return err
	}
	if o.headrace() {
		return o.completeHeadrace()
	}
	return nil
}

// headrace reports whether there may be daemons of Headrace.
func (o *Options) headrace() bool { return o.Mode == Headrace || o.Beside }

func (o *Options) completeMachines() error {
	switch {
	case !o.Machines && (o.MachineMemory > 0 || o.Disk != nil || o.HDFS != nil):
		return errors.New("memory, disks and HDFS of machines take the option Machines")
	case o.LocalOnDisk && o.Disk == nil:
		return errors.New("no disk is given for the local directories")
	case o.Disk != nil && o.LabProgram == "":
		return errors.New("no program is given for the disks")
	case o.NoYARN && (o.HDFS == nil || o.Mode == Headrace):
		return errors.New("without YARN there is nothing but HDFS, which is not asked for")
	case o.HDFS == nil:
		return nil
	}
	h := *o.HDFS
	o.HDFS = &h
	return h.complete(o)
}

func (o *Options) completeHeadrace() error {
	if o.Binary == "" {
		return errors.New("no headrace binary is given")
	}
	binary, err := filepath.Abs(o.Binary)
	if err != nil {
		return err
	}
	o.Binary = binary
	if _, err := os.Stat(o.Jars.Plugin); err != nil && o.Mode == Headrace {
		return fmt.Errorf("the plug-in for YARN is not there (%s): run make java", o.Jars.Plugin)
	}
	return nil
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
