// Package yarn runs a real YARN cluster on this machine, for tests, the demo and
// experiments: a ResourceManager and NodeManagers from Hadoop's own jars, each a
// process, with or without Headrace in them, and with or without an HDFS.
//
// # Parts
//
//   - Find looks for the jars, which "make java" gathers. Archive makes starts cheaper.
//   - Start makes an installation in a private directory, with a configuration, and
//     starts the daemons: a ResourceManager, and on each machine a NodeManager; in the
//     mode Headrace also a manager, and on each machine a node daemon. Each of them can
//     be killed and started again.
//   - A ShellJob is run by DistributedShell, or by an application master of our own
//     that starts again what was preempted (java/cluster); a MapReduceJob by
//     MapReduce's own client; a ServiceJob by the framework of YARN services. Masters, a
//     Submitter and Queries are one process for many jobs each: of ours, of MapReduce, of
//     Spark SQL.
//   - Steps is a workload that leaves a trace of each of its steps, so that work
//     that was done twice can be counted.
//   - Stop ends everything and fails when anything was left that should have ended
//     by itself.
//
// Every cluster has loopback addresses of its own, one for each machine, so
// that several may run side by side and a NodeManager has a host name that no
// other has. With the option Machines each machine also has a mount namespace of its
// own, with directories at the same paths as all others.
//
// # HDFS
//
// With the option HDFS there are a NameNode beside the ResourceManager and a DataNode on
// each machine; HDFS is the default file system. Machines then have network namespaces too,
// connected by a bridge in that of the head, where all that there is one of runs, clients
// too: so DataNodes, NodeManagers and readers have the same address on a machine and
// different ones on different machines, and locality means what it does elsewhere. Nothing
// outside reaches them but through Transport and On.
//
// A machine's disk (option Disk) is mounted on that machine only. Its memory (option
// MachineMemory) is that of daemons, containers and commands together, page cache
// included; the server of the disk is outside, being an instrument.
//
// Tests of this package hold what others build on (TestDiskOfMachines): a descriptor that
// was opened on a machine works outside, for cachestat, mlock, fadvise and the counters of
// package pagecache; a page is charged to the cgroup of who touches it first, in whatever
// namespace. Short-circuit reads take libhadoop.so, which no release of Hadoop has in a jar;
// java/cluster gets it from another project's. The CapacityScheduler waits for a place
// beside the data for one round of all nodes at most, whatever its delays say.
//
// What belongs to a cluster is told by a variable in the environment of each of its
// processes, also of containers.
package yarn
