package names

import (
	"cmp"
	"crypto/rand"
	"flag"
	"fmt"
	"strings"
	"testing"

	"headrace/internal/testkit"
	"headrace/meta"
)

var (
	seeds = flag.Int("seeds", 0, "how many worlds are simulated (default: as many as each test says)")
	seed  = flag.Uint64("seed", 0, "the first of them")
	every = flag.Uint64("every", 0, "after which entries all of the tree is compared, and not only where clients look")
)

const simSteps = 700

// withChance lets worlds replace Raft's chance, and puts the real one back.
func withChance(t testing.TB) {
	real := rand.Reader
	t.Cleanup(func() { rand.Reader = real })
}

// runWorlds simulates as many worlds as there are seeds, or n, a tenth of them in short tests, and returns how many and what has happened in them. plants: their states decay and
// stray. Their nodes begin with a version, and are updated if that is not the newest. after is told of each.
func runWorlds(t *testing.T, n int, plants bool, version uint32, after func(*world)) (int, map[string]int) {
	t.Helper()
	withChance(t)
	counts := map[string]int{}
	n = cmp.Or(*seeds, n)
	if testing.Short() {
		n /= 10
	}
	for i := range uint64(n) {
		w := newWorldOf(version, *seed+i, fault{}, counts)
		w.plants = plants
		if version != newest {
			w.rolling = rolling(w.seed)
		}
		if problem := w.run(simSteps); problem != "" {
			for _, line := range w.log {
				t.Log(line)
			}
			t.Fatalf("seed %d (-seed %d -seeds 1): %s", w.seed, w.seed, problem)
		}
		after(w)
	}
	t.Logf("%d worlds: %v", n, counts)
	return n, counts
}

// TestWorlds simulates many worlds: nodes that die at any step and lose what was not synced, a network that loses, repeats,
// delays and cuts, a ring that nodes join, leave and are thrown out of, with seats that follow. What was answered is there,
// who asks again gets the same answer, all is linearizable, and replicas come to the same state.
func TestWorlds(t *testing.T) {
	worlds := 400
	if testkit.All() {
		worlds = 1000
	}
	n, counts := runWorlds(t, worlds, false, newest, func(w *world) {
		w.counts["ops"] += len(w.ops)
		w.counts["entries"] += len(w.agreed)
	})
	if n < 50 {
		return
	}
	for _, k := range []string{"joined", "chunk", "asked of one that is alone", "answered when asked again", "disk error", "ring.Down", "ring.Out", "ring.Back", "ring.Drain", "ring.Remove", "ring.Fill",
		"ring.Weigh", "ring.Level", "ring.Confirm", "ring.Lost", "ring.Abandon", "ring.Rack", "seen",
		"died names.seat.taken", "died names.seat.leaving", "died names.seat.dropped", "died before flush", "died after flush", "died before replace", "died after replace"} {
		if counts[k] == 0 {
			t.Errorf("no %s", k)
		}
	}
	for _, d := range []meta.Op{&meta.Mkdirs{}, &meta.Create{}, &meta.Append{}, &meta.AddBlock{}, &meta.AbandonBlock{}, &meta.NewStamp{}, &meta.UpdatePipeline{}, &meta.Complete{},
		&meta.Fsync{}, &meta.RenewLease{}, &meta.RecoverLease{}, &meta.Delete{}, &meta.Rename{}, &meta.Concat{}, &meta.SetPermission{}, &meta.SetOwner{}, &meta.SetTimes{},
		&meta.SetReplication{}, &meta.SetXAttr{}, &meta.RemoveXAttr{}, &meta.ChangeACL{}, &meta.SetSafeMode{}, &meta.CommitRecovery{}, &meta.ExpireLeases{}, &meta.Sweep{},
		&meta.Collected{}, &meta.Relocate{}, &meta.Truncate{}, &meta.SetQuota{}, &meta.RenewLeases{}, &meta.Survey{},
		&meta.ChangeCachePool{}, &meta.RemoveCachePool{}, &meta.ChangeCacheDirective{}, &meta.RemoveCacheDirective{}} { // all there are
		if k := strings.TrimPrefix(fmt.Sprintf("%T", d), "*meta."); counts["did "+k] == 0 {
			t.Errorf("no %s was done", k)
		}
	}
}
