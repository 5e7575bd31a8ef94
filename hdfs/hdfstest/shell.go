package hdfstest

import (
	"os/exec"
	"path/filepath"
)

// Shell returns a command that is Hadoop's client, configured in the directory conf: headrace.cluster.HadoopShell,
// which says what it is told on standard input. hadoop is where java/cluster gathers jars. The error is ErrMissing
// when they are not there, or no Java.
func Shell(hadoop, conf string) (*exec.Cmd, error) {
	java, hadoop, path, err := find(hadoop)
	if err != nil {
		return nil, err
	}
	path += ":" + filepath.Join(hadoop, "..", "headrace-cluster.jar") + ":" + conf
	flags := append(append([]string{"-Xmx192m"}, small...), archive(hadoop)...)
	return exec.Command(java, append(flags, "-cp", path, "headrace.cluster.HadoopShell")...), nil
}

// small makes a virtual machine start quickly and stay small.
var small = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
	"-XX:MetaspaceSize=128m",                                            // else all garbage is collected when classes take 21 MB: a tenth of the processor time of a start
	"-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote", // an eighth
	"-XX:ArchiveRelocationMode=0", // else each page of the archive is written
	"--add-opens=java.base/java.lang=ALL-UNNAMED"}

// archive has it use the archive of classes that "headrace-lab yarn archive" makes, if it is there: with it a start takes a
// third of the processor time. The jars must be first in the class path, as find has them.
func archive(hadoop string) []string {
	return []string{"-XX:SharedArchiveFile=" + filepath.Join(hadoop, "classes.jsa"), "-Xshare:auto", "-Xlog:disable", "-Xlog:all=warning:stderr", "-Xlog:cds=off"}
}
