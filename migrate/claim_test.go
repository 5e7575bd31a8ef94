package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/blob"
)

// TestClaimOnce: of fifty claimants one gets an entry.
func TestClaimOnce(t *testing.T) {
	eachPlace(t, func(t *testing.T, p blob.Place) {
		a := newArchive(t, p, Options{})
		m := putEntry(t, a, "k")
		var mu sync.Mutex
		var won []*Claim
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				c, err := a.Claim(t.Context(), want("k"))
				if err != nil {
					if !errors.Is(err, ErrNone) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				won = append(won, c)
			})
		}
		wg.Wait()
		if len(won) != 1 || won[0].Manifest.ID != m.ID {
			t.Fatalf("%d claimants have it", len(won))
		}
		if e := won[0].Entry(); e.State != Claimed || e.Claimant != "node2" {
			t.Errorf("entry %+v", e)
		}
		files, err := fetched(t.Context(), won[0])
		if err != nil || string(files["000001/x"]) != "contents of k" {
			t.Errorf("fetched %q, %v", files, err)
		}
	})
}

const claimEnv = "ARCHIVE_TEST_CLAIM"

// TestClaimChild claims whatever it can get.
func TestClaimChild(t *testing.T) {
	where := os.Getenv(claimEnv)
	if where == "" {
		t.Skip("runs only as a child of TestClaimProcesses")
	}
	var p blob.Place
	var err error
	if host, dir, ok := strings.Cut(strings.TrimPrefix(where, "http://"), "/"); ok && host != "" {
		p, err = openHDFS(t.Context(), "http://"+host, "/"+dir)
	} else {
		p, err = blob.Dir(where)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := newArchive(t, p, Options{})
	for {
		c, err := a.Claim(t.Context(), want("k"))
		if errors.Is(err, ErrNone) {
			if left, lerr := a.place.List(t.Context(), string(Ready)); lerr != nil || len(left) == 0 {
				return
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Use(t.Context()); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("claimed %s\n", c.Manifest.ID)
	}
}

// TestClaimProcesses: several processes share many entries of one key without
// getting one twice or leaving one.
func TestClaimProcesses(t *testing.T) {
	eachPlace(t, func(t *testing.T, p blob.Place) {
		a := newArchive(t, p, Options{})
		const entries, processes = 12, 4
		left := make(map[string]bool)
		for range entries {
			left[putEntry(t, a, "k").ID] = true
		}
		outs := make([][]byte, processes)
		var wg sync.WaitGroup
		for i := range processes {
			wg.Go(func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClaimChild$")
				cmd.Env = append(os.Environ(), claimEnv+"="+p.String(), "GORACE=atexit_sleep_ms=0")
				var err error
				if outs[i], err = cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, outs[i])
				}
			})
		}
		wg.Wait()
		for _, out := range outs {
			for line := range strings.Lines(string(out)) {
				id, ok := strings.CutPrefix(strings.TrimSpace(line), "claimed ")
				if ok && !left[id] {
					t.Errorf("%s was claimed twice, or never put", id)
				}
				delete(left, id)
			}
		}
		if len(left) != 0 {
			t.Errorf("nobody has %v", left)
		}
	})
}

func TestClaimChooses(t *testing.T) {
	a := newArchive(t, newDir(t), Options{})
	first := putEntry(t, a, "k")
	second := putEntry(t, a, "k")
	putEntry(t, a, "other")
	claim := func(w Want) (*Claim, error) { return a.Claim(t.Context(), w) }
	if _, err := claim(want("none")); !errors.Is(err, ErrNone) {
		t.Errorf("of a key that nobody has put: %v", err)
	}
	w := want("k")
	w.UID = 1001
	if _, err := claim(w); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "user 1000") {
		t.Errorf("of another user: %v", err)
	}
	w = want("k")
	w.Accept = func(m *Manifest) error {
		if m.ID == first.ID {
			return errors.New("too hot")
		}
		return nil
	}
	c, err := claim(w)
	if err != nil || c.Manifest.ID != second.ID {
		t.Fatalf("claimed %v, %v; want the second", c, err)
	}
	if _, err := claim(w); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "too hot") {
		t.Errorf("the first was refused: %v", err)
	}
	if err := c.Return(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Use(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("used what was returned: %v", err)
	}
	if c, err = claim(want("k")); err != nil || c.Manifest.ID != first.ID {
		t.Errorf("claimed %v, %v; want the oldest", c, err)
	}
	if _, err := claim(Want{Key: "short"}); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("with an impossible key: %v", err)
	}
}

// TestClaimReadsOne: of many that wait the oldest is claimed, and only its manifest is read.
func TestClaimReadsOne(t *testing.T) {
	p := &failing{Place: newDir(t)}
	a := newArchive(t, p, Options{})
	var put []string
	for range 5 {
		put = append(put, putEntry(t, a, "k").ID)
	}
	for i, id := range put {
		read := map[string]bool{}
		p.open = func(_ context.Context, name string) error {
			read[path.Base(path.Dir(name))] = true
			return nil
		}
		c, err := a.Claim(t.Context(), want("k"))
		if err != nil {
			t.Fatal(err)
		}
		if c.Manifest.ID != id {
			t.Errorf("claim %d is %s, want %s of %v", i, c.Manifest.ID, id, put)
		}
		for name := range read {
			if !strings.Contains(name, id) {
				t.Errorf("to claim %s, %s was read", id, name)
			}
		}
		if i == 0 { // it waits again, and is no younger for that
			if err := c.Return(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c, err = a.Claim(t.Context(), want("k")); err != nil || c.Manifest.ID != id {
				t.Errorf("claimed %v, %v after it was returned", c, err)
			}
		}
	}
}

// TestStaleClaim: a claim that is not renewed is offered again, and who had it is
// told; one that is used never is.
func TestStaleClaim(t *testing.T) {
	eachPlace(t, func(t *testing.T, p blob.Place) {
		a := newArchive(t, p, Options{})
		m := putEntry(t, a, "k")
		slow, err := a.Claim(t.Context(), want("k"))
		if err != nil {
			t.Fatal(err)
		}
		sweep(t, a, Ages{}, Swept{})
		if err := slow.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		sweep(t, a, Ages{Claim: -time.Hour}, Swept{Offered: 1}) // as if an hour had passed
		for what, err := range map[string]error{"renewed": slow.Renew(t.Context()), "used": slow.Use(t.Context()), "returned": slow.Return(t.Context()), "removed": slow.Remove(t.Context())} {
			if !errors.Is(err, ErrLost) {
				t.Errorf("%s what was lost: %v", what, err)
			}
		}
		if _, err := fetched(t.Context(), slow); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("fetched what was lost: %v", err)
		}
		next, err := a.Claim(t.Context(), want("k"))
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Use(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := slow.Use(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("used by two: %v", err)
		}
		sweep(t, a, Ages{Claim: -time.Hour}, Swept{})
		if got := statesOf(t, a); got[m.ID] != Used {
			t.Errorf("state %v", got)
		}
		if err := a.Withdraw(t.Context(), m.ID); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "node2") {
			t.Errorf("withdrawn: %v", err)
		}
		if err := next.Return(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Withdraw(t.Context(), m.ID); err != nil {
			t.Error(err)
		}
		if err := a.Withdraw(t.Context(), m.ID); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("withdrawn again: %v", err)
		}
	})
}

// TestFetchRenews: a claim is kept as long as its data are fetched, whatever the fetch waits for.
func TestFetchRenews(t *testing.T) {
	defer func(d time.Duration) { renewEvery = d }(renewEvery)
	renewEvery = time.Millisecond
	p := &failing{Place: newDir(t)}
	a := newArchive(t, p, Options{})
	from, to := testStore(t), testStore(t)
	im := dumpImage(t, from, "t1", 1, 10)
	if _, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error { return w.AddImage(im) }); err != nil {
		t.Fatal(err)
	}
	claim, err := a.Claim(t.Context(), want("k"))
	if err != nil {
		t.Fatal(err)
	}
	renewed := make(chan struct{}, 1)
	p.open = func(ctx context.Context, name string) error {
		p.open = nil
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for range 3 {
			select {
			case <-renewed:
			case <-ctx.Done():
				return errors.New("it is not renewed while data are waited for")
			}
		}
		return nil
	}
	p.touch = func(string) {
		select {
		case renewed <- struct{}{}:
		default:
		}
	}
	if _, err := claim.Fetch(t.Context(), Target{Store: to, Task: "t2"}); err != nil {
		t.Fatal(err)
	}
	if err := claim.Use(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestFetchOfWhatIsLost: a fetch ends when the claim is another's.
func TestFetchOfWhatIsLost(t *testing.T) {
	defer func(d time.Duration) { renewEvery = d }(renewEvery)
	renewEvery = time.Millisecond
	p := &failing{Place: newDir(t)}
	a := newArchive(t, p, Options{})
	putEntry(t, a, "k")
	claim, err := a.Claim(t.Context(), want("k"))
	if err != nil {
		t.Fatal(err)
	}
	p.open = func(ctx context.Context, name string) error {
		sweep(t, a, Ages{Claim: -time.Hour}, Swept{Offered: 1})
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if _, err := claim.Fetch(t.Context(), Target{Store: testStore(t), Task: "t2"}); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

// TestClaimThatCannotBeUsed: who claims what it then cannot read leaves it to others at once.
func TestClaimThatCannotBeUsed(t *testing.T) {
	p := &failing{Place: newDir(t)}
	a := newArchive(t, p, Options{})
	id := putEntry(t, a, "k").ID
	p.open = func(_ context.Context, name string) error {
		if strings.HasPrefix(name, "claimed/") {
			return errors.ErrUnsupported
		}
		return nil
	}
	if _, err := a.Claim(t.Context(), want("k")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("claimed: %v", err)
	}
	if got := statesOf(t, a)[id]; got != Ready {
		t.Errorf("it is %s", got)
	}
}

// A claimant that has died has what it had claimed again at once, and learns of what
// it had begun to use. Others' claims are theirs.
func TestReclaim(t *testing.T) {
	eachPlace(t, func(t *testing.T, p blob.Place) {
		a := newArchive(t, p, Options{})
		claim := func(key, who string) *Claim {
			w := want(key)
			w.Claimant = who
			c, err := a.Claim(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		mine, others := putEntry(t, a, "k").ID, putEntry(t, a, "other").ID
		dead := claim("k", "c1.node/1")
		claim("other", "c2.node/1")
		if keys, err := a.ReadyKeys(t.Context()); err != nil || len(keys) != 0 {
			t.Errorf("ready: %v, %v", keys, err)
		}
		if offered, used, err := a.Reclaim(t.Context(), "c1.node/1"); err != nil || len(used) != 0 || !slices.Equal(offered, []string{mine}) {
			t.Errorf("%q offered, %v used, %v", offered, used, err)
		}
		if got := statesOf(t, a); got[mine] != Ready || got[others] != Claimed {
			t.Errorf("states %v", got)
		}
		if keys, err := a.ReadyKeys(t.Context()); err != nil || len(keys) != 1 || !keys[testKey("k")] {
			t.Errorf("ready: %v, %v", keys, err)
		}
		if err := dead.Use(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("used by the dead: %v", err)
		}
		if err := claim("k", "c1.node/1").Use(t.Context()); err != nil {
			t.Fatal(err)
		}
		if offered, used, err := a.Reclaim(t.Context(), "c1.node/1"); err != nil || len(used) != 1 || len(offered) > 0 {
			t.Errorf("%q offered, %v used, %v", offered, used, err)
		}
		if got := statesOf(t, a); got[mine] != Used {
			t.Errorf("states %v", got)
		}
	})
}

func sweep(t *testing.T, a *Archive, ages Ages, want Swept) {
	t.Helper()
	if got, err := a.Sweep(t.Context(), ages); err != nil || got != want {
		t.Errorf("sweep: %+v, %v; want %+v", got, err, want)
	}
}

func TestSweepRemoves(t *testing.T) {
	a := newArchive(t, newDir(t), Options{})
	putEntry(t, a, "ready")
	putEntry(t, a, "used")
	c, err := a.Claim(t.Context(), want("used"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Use(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.place.Mkdir(t.Context(), "new/"+testKey("x")+"."+NewID()); err != nil {
		t.Fatal(err)
	}
	if err := a.place.Mkdir(t.Context(), "removed/left"); err != nil {
		t.Fatal(err)
	}
	sweep(t, a, Ages{}, Swept{})
	if list, err := a.place.List(t.Context(), "removed"); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	sweep(t, a, Ages{Upload: -1}, Swept{Removed: 1})
	sweep(t, a, Ages{Used: -1}, Swept{Removed: 1})
	if got := statesOf(t, a); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
	sweep(t, a, Ages{Ready: -1}, Swept{Removed: 1})
	if got := statesOf(t, a); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
