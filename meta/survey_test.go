package meta

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSurveys: a command with what a survey has seen does what it would do if it looked itself, whatever has changed since.
func TestSurveys(t *testing.T) {
	who := []Caller{root, alice, bob}
	counts := map[string]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t)
		b.must(root, &SetPermission{Path: "/", Mode: 0o777})
		for i := range 150 {
			b.change(r, r.IntN(3) > 0)
			if i%10 != 9 {
				continue
			}
			m := Command{Time: b.now + 100, Caller: who[r.IntN(3)]}
			switch path := b.path(r, 1+r.IntN(2)); r.IntN(4) {
			case 0:
				m.Caller, m.Op = root, &SetQuota{path, 100, 100_000}
			case 1:
				m.Op = &Rename{From: path, To: b.path(r, 1+r.IntN(3)), Trash: r.IntN(2) > 0, Overwrite: true}
			default:
				m.Op = &Delete{path, true}
			}
			y := m.Survey(uint64(b.now))
			if _, err := Apply(b.v, Command{Time: b.now, Caller: m.Caller, Op: y}); err != nil {
				continue
			}
			for range r.IntN(4) {
				b.change(r, r.IntN(4) == 0)
			}
			seen, refused := b.as(m.Caller).Survey(y)
			if refused == nil {
				for range r.IntN(4) {
					b.change(r, r.IntN(4) == 0)
				}
			}
			itself, with := b.clone(), b.clone()
			want, wantErr := Apply(itself, m)
			m.Seen = seen
			live := open(newDraft(with), 0, root)
			used := seen != nil && slices.ContainsFunc(surveysOf(live.records).all, func(y *survey) bool { return y.Number == seen.Number })
			got, err := Apply(with, m)
			if refused != nil {
				counts["refused"]++
				if wantErr == nil {
					t.Fatalf("seed %d: %T%+v is refused to %s after a survey: %v", seed, m.Op, m.Op, m.Caller.User, refused)
				}
				continue
			}
			if fmt.Sprint(wantErr) != fmt.Sprint(err) || fmt.Sprint(want == nil) != fmt.Sprint(got == nil) {
				t.Fatalf("seed %d: %T%+v of %s: %v, and after a survey %v", seed, m.Op, m.Op, m.Caller.User, wantErr, err)
			}
			itself.Delete(key(keyConfig, 3))
			with.Delete(key(keyConfig, 3))
			if !bytes.Equal(dump(itself), dump(with)) {
				t.Fatalf("seed %d: after %T%+v\n%s\nand with a survey\n%s", seed, m.Op, m.Op, dump(itself), dump(with))
			}
			check(t, with)
			switch {
			case used && err == nil:
				counts["done with one"]++
			case seen != nil && !used:
				counts["ended by a change"]++
			case seen == nil:
				counts["ended before the look"]++
			}
			b.v = with
		}
	}
	t.Log(counts)
	for _, k := range []string{"done with one", "ended by a change", "ended before the look", "refused"} {
		if counts[k] < 3 {
			t.Errorf("%s: %d times", k, counts[k])
		}
	}
}

func (b *bench) clone() *Memory { return &Memory{maps.Clone(b.v.values), slices.Clone(b.v.keys)} }

func (b *bench) path(r *rand.Rand, depth int) string {
	p := ""
	for range depth {
		p += "/" + string(rune('a'+r.IntN(3)))
	}
	return p
}

// change changes something, if it may be.
func (b *bench) change(r *rand.Rand, makes bool) {
	by := []Caller{root, alice, bob}[r.IntN(3)]
	path := b.path(r, 1+r.IntN(4))
	if makes {
		if r.IntN(2) == 0 {
			b.try(by, &Mkdirs{Path: path, Mode: 0o755, Parents: true})
			return
		}
		v, err := b.try(by, &Create{Path: path + "/f", Mode: 0o644, Holder: by.User, Flags: FlagCreate | FlagOverwrite, Parents: true, Replication: 2, BlockSize: 100})
		if err == nil && r.IntN(3) > 0 {
			b.try(by, &AddBlock{Path: "/", ID: v.(*Status).ID, Holder: by.User, Nodes: []string{"n"}})
		}
		return
	}
	mode := []uint16{0o777, 0o777, 0o755, 0o700, sticky | 0o777}[r.IntN(5)]
	switch r.IntN(8) {
	case 0, 1:
		b.try(by, &SetPermission{Path: path, Mode: mode})
	case 2:
		b.try(root, &SetOwner{Path: path, Owner: []string{"alice", "bob"}[r.IntN(2)]})
	case 3:
		b.try(by, &Delete{path, true})
	case 4, 5:
		b.try(by, &Rename{From: path, To: b.path(r, 1+r.IntN(4)), Old: r.IntN(2) == 0})
	case 6:
		b.try(root, &SetQuota{path, []int64{ClearQuota, 20, 100}[r.IntN(3)], []int64{ClearQuota, 5000, 100_000}[r.IntN(3)]})
	default:
		b.try(by, &ChangeACL{Path: path, How: ModifyACL, Entries: []ACLEntry{{Type: User, Name: "bob", Access: []Access{Read, All}[r.IntN(2)]}}})
	}
}

// TestManySurveys: those of one user do not end another's.
func TestManySurveys(t *testing.T) {
	b := newBench(t)
	b.mkdir("/a", "/b")
	begin := func(by Caller, path string, number uint64) {
		if _, err := Apply(b.v, Command{Time: b.now, Caller: by, Op: &Survey{Path: path, Number: number}}); err != nil {
			t.Fatal(err)
		}
	}
	const bobs = 1000
	begin(alice, "/a", 1)
	for i := range uint64(2 * mostSurveys) {
		begin(bob, "/b", bobs+i)
	}
	begin(carol, "/a", 2)
	all := surveysOf(open(newDraft(b.v), 0, root).records).all
	is := func(number uint64) bool {
		return slices.ContainsFunc(all, func(y *survey) bool { return y.Number == number })
	}
	if !is(1) || !is(2) || is(bobs) || !is(bobs+2*mostSurveys-1) || len(all) != mostSurveys {
		t.Errorf("%d are left; alice's %v, carol's %v, bob's first %v and last %v", len(all), is(1), is(2), is(bobs), is(bobs+2*mostSurveys-1))
	}
}

// TestSurveyOfStickyDirectory: what others put into a sticky directory keeps the caller from taking it away.
func TestSurveyOfStickyDirectory(t *testing.T) {
	b := newBench(t)
	b.mkdir("/d/s")
	b.must(root, &SetPermission{Path: "/d/s", Mode: sticky | 0o777})
	b.must(root, &SetOwner{Path: "/d", Owner: "alice"})
	b.must(root, &SetPermission{Path: "/", Mode: 0o777})
	b.open(alice, "/d/s/hers")
	m := Command{Time: b.now, Caller: alice, Op: &Delete{"/d", true}}
	if m.Seen = b.seen(m); m.Seen == nil {
		t.Fatal("nothing is seen")
	}
	b.open(bob, "/d/s/his")
	_, err := Apply(b.v, m)
	b.isError(err, "AccessControlException", `Permission denied by sticky bit: user=alice, path="/d/s/his"`)
}
