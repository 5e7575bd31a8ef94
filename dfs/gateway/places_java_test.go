package gateway_test

import "testing"

// TestHadoopIsToldOfPlaces: Hadoop's client can say where the blocks of a file are, as whoever makes tasks of it asks, also when racks are called
// as the flag's example has it, and is told the names of machines.
func TestHadoopIsToldOfPlaces(t *testing.T) {
	hadoopJars(t)
	s := startServer(t, t.TempDir(), 0, "--rack", "r1", "--host-name", "node1.corp")
	j := startShell(t, clientConfig(t, s))
	j.run("-put", write(t, t.TempDir(), "f", []byte("some text")), "/f")
	j.says("0 node1.corp /r1/127.0.0.1:", "located", "/f")
}
