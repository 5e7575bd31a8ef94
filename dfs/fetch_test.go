package dfs

import (
	"net"
	"sync"
	"testing"

	"headrace/internal/testkit"
	"headrace/wire"
)

// TestFewFetches: however many copies are asked for at once, by whomever, only a few are being made: clients wait for the same disk.
func TestFewFetches(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	source := Member{Name: "source", Storage: "s", Host: "127.0.0.1", Data: uint16(l.Addr().(*net.TCPAddr).Port), RPC: 1, Peer: 1}
	if _, _, err := n.Admit(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	came := make(chan net.Conn, 100)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came <- c
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	const all = 5 * mostFetches
	var fetching sync.WaitGroup
	for i := range all {
		w := &wire.WantedBlock{Block: uint64(i + 1), Stamp: 1, Length: 1 << 20, Capacity: 1 << 20, File: 1}
		fetching.Go(func() {
			if err := n.Keeper.fetch(t.Context(), w, []string{source.Name}); err == nil {
				t.Error("a block was fetched from a node that has said nothing")
			}
		})
	}
	testkit.Await(t, "all to be wanted, and some to be asked for", func() bool { return n.Fetching() == all && len(came) >= mostFetches })
	for range all {
		c := <-came
		if more := len(came); more >= mostFetches {
			t.Errorf("%d are fetched at once, want at most %d", more+1, mostFetches)
		}
		c.Close() // the next one's turn
	}
	fetching.Wait()
	if len(came) > 0 {
		t.Error("more connections than blocks")
	}
}
