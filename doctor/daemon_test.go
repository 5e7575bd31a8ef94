package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/proc/checkpoint"
	"headrace/wire"
)

func TestWhatTheDaemonSays(t *testing.T) {
	told := func(info *wire.NodeInfo, err error) []Finding {
		o := Options{Ask: func(context.Context) (*wire.NodeInfo, error) { return info, err }}
		return o.daemon(t.Context())
	}
	for _, f := range append(new(Options).daemon(t.Context()), told(nil, &wire.NoDaemonError{Socket: "/x"})...) {
		expect(t, f, OK, "no daemon runs", "")
	}
	for _, f := range told(nil, errors.New("it stumbles")) {
		expect(t, f, Unknown, "it stumbles", "")
	}
	for _, f := range told(&wire.NodeInfo{}, nil) {
		expect(t, f, OK, "daemon", "")
	}
	all := told(&wire.NodeInfo{
		Hangs:     []*wire.DiskHang{{Disk: "0:57", Mount: "/mnt", SinceMs: time.Now().Add(-time.Minute).UnixMilli(), Silent: true, Hanging: 2, Waiting: 1}},
		LeftAlone: []*wire.LeftAlone{{Id: "t7", Why: "it is a container of another scheduler"}},
	}, nil)
	expect(t, all[0], Warning, "0:57 (/mnt): no answer for 1m0", "umount -f /mnt")
	expect(t, all[0], Warning, "2 hang, 1 waits", "0:57 (/mnt): ")
	expect(t, all[1], Warning, "t7 (it is a container of another scheduler)", "Not in the records")
}

func TestOwnersOfStores(t *testing.T) {
	state, other, nobodys := t.TempDir(), t.TempDir(), t.TempDir()
	own := filepath.Join(state, "checkpoints")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	expect(t, owners(state, nil, ""), OK, "no store", "") // nor has a daemon run there
	if err := checkpoint.Claim(own, checkpoint.Owner{ID: "me", Host: "here", Dir: state}); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Claim(other, checkpoint.Owner{ID: "it", Host: "mill", Dir: "/srv/x"}); err != nil {
		t.Fatal(err)
	}
	expect(t, owners(state, nil, ""), Missing, "belongs to", "--store") // its identity was lost
	if err := os.WriteFile(filepath.Join(state, checkpoint.IdentityFile), []byte("me\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, owners(state, nil, ""), OK, "no store", "")
	expect(t, owners(state, []string{own, nobodys}, ""), OK, "no store", "")
	expect(t, owners(state, []string{own, other}, ""), Missing, `belongs to the daemon on "mill" with the state directory "/srv/x"`, "Give each daemon a directory of its own")
	expect(t, owners(state, []string{filepath.Join(own, ".owner")}, ""), Unknown, "not a directory", "")
}

// A store on a file server that does not answer is found to be one, and does not keep everything from being said.
func TestSilentStore(t *testing.T) {
	dir := t.TempDir()
	testkit.SilentFS(t, dir)
	m := machine{root: "/"}
	expect(t, owners(t.TempDir(), []string{filepath.Join(dir, "store")}, ""), Unknown, "does not answer", "")
	expect(t, m.storage("store", filepath.Join(dir, "store"), true), Missing, "does not answer", "--store")
}
