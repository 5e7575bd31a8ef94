// Package yarn runs a real YARN cluster on this machine, for tests, the demo and
// experiments: a ResourceManager and NodeManagers from Hadoop's own jars, each a
// process, with or without Headrace in them.
//
// # Parts
//
//   - Find looks for the jars, which "make java" gathers.
//   - Start makes an installation in a private directory, with a configuration, and
//     starts the daemons: a ResourceManager, and on each machine a NodeManager; in the
//     mode Headrace also a manager, and on each machine a node daemon. Each of them can
//     be killed and started again.
//   - A ShellJob is run by DistributedShell, or by an application master of our own
//     that starts again what was preempted (java/cluster); a MapReduceJob by
//     MapReduce's own client; a ServiceJob by the framework of YARN services.
//   - Steps is a workload that leaves a trace of each of its steps, so that work
//     that was done twice can be counted.
//   - Stop ends everything and fails when anything was left that should have ended
//     by itself.
//
// Every cluster has loopback addresses of its own, one for each machine, so
// that several may run side by side and a NodeManager has a host name that no
// other has. With the option Machines each machine also has a mount namespace of its
// own, with directories at the same paths as all others.
// What belongs to a cluster is told by a variable in the environment of each of its
// processes, also of containers.
package yarn
