package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/internal/testkit"
)

const testPool = "BP-1-127.0.0.1-1700000000000"

// dataDir is a directory as a data node has it.
type dataDir struct {
	testing.TB
	dir string
}

func newDataDir(t testing.TB, layout layout) dataDir {
	d := dataDir{t, t.TempDir()}
	d.write("current/VERSION", "layoutVersion=-57\nstorageType=DATA_NODE\n")
	d.write("current/"+testPool+"/current/VERSION", version(testPool, int(layout)))
	return d
}

func version(pool string, layout int) string {
	return fmt.Sprintf("#Tue Nov 14 22:13:20 UTC 2023\nnamespaceID=1\ncTime=1700000000000\nblockpoolID=%s\nlayoutVersion=%d\n", pool, layout)
}

func (d dataDir) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d dataDir) path(name string) string { return filepath.Join(d.dir, name) }

// inPool is below the directory of the block pool.
func (d dataDir) inPool(name string) string { return d.path("current/" + testPool + "/" + name) }

func (d dataDir) write(name, text string) {
	d.Helper()
	d.must(os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	d.must(os.WriteFile(d.path(name), []byte(text), 0o600))
}

// subdir is where the finalized block 0x12345678 must be.
func subdir(l layout) string {
	if l == layout256 {
		return "current/finalized/subdir52/subdir86/"
	}
	return "current/finalized/subdir20/subdir22/"
}

// testBlock has a replica in what add makes.
var testBlock = headrace.Block{ID: headrace.BlockID{Pool: testPool, Number: 0x12345678}, Generation: 1001, Bytes: 5}

const (
	testData = "blk_305419896"
	testMeta = "blk_305419896_1001.meta"
)

// add makes the files of testBlock in a directory below the block pool's.
func (d dataDir) add(dir string) {
	d.Helper()
	d.write("current/"+testPool+"/"+dir+testData, "hello")
	d.write("current/"+testPool+"/"+dir+testMeta, "\x00\x01\x02\x00\x00\x02\x00abcd")
}

func volumes(t testing.TB, dirs ...dataDir) *Volumes {
	t.Helper()
	var names []string
	for _, d := range dirs {
		names = append(names, d.dir)
	}
	v, err := Open(names)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.volumes {
		v.volumes[i].line.patience = time.Hour // however slow the machine is
	}
	return v
}

func found(t testing.TB, v *Volumes) *Replica {
	t.Helper()
	r, err := v.Find(t.Context(), testBlock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func wantError(t testing.TB, what string, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v; want %v", what, err, want)
	}
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v; want something about %q", what, err, w)
		}
	}
}

func TestFind(t *testing.T) {
	for _, l := range []layout{layout256, layout32} {
		other, d := newDataDir(t, layout32), newDataDir(t, l)
		d.add(subdir(l))
		r := found(t, volumes(t, other, d))
		data, err := io.ReadAll(r.Data)
		if string(data) != "hello" || err != nil {
			t.Errorf("layout %d: data %q, %v", l, data, err)
		}
		meta, err := io.ReadAll(r.Meta)
		if len(meta) != metaHeader+4 || err != nil {
			t.Errorf("layout %d: checksums %q, %v", l, meta, err)
		}
		if r.ID != testBlock.ID || r.Generation != 1001 || r.Bytes != 5 || r.Volume != d.dir {
			t.Errorf("layout %d: %+v", l, r)
		}
		if err := r.Check(t.Context()); err != nil {
			t.Errorf("layout %d: %v", l, err)
		}
	}
}

// TestFindOther meets all that may be where a replica is looked for.
func TestFindOther(t *testing.T) {
	sub := subdir(layout32)
	for what, c := range map[string]struct {
		change func(dataDir)
		want   error
		words  string
	}{
		"nothing":                {func(d dataDir) {}, ErrAbsent, ""},
		"another layout's place": {func(d dataDir) { d.add(subdir(layout256)) }, ErrAbsent, ""},
		"another block pool":     {func(d dataDir) { d.must(os.Rename(d.inPool(""), d.path("current/BP-2-127.0.0.1-1700000000000"))) }, ErrAbsent, ""},
		"what an upgrade keeps": {func(d dataDir) {
			d.add("previous/finalized/subdir20/subdir22/")
			d.add("trash/finalized/subdir20/subdir22/")
		}, ErrAbsent, ""},
		"checksums alone": {func(d dataDir) { d.add(sub); d.must(os.Remove(d.inPool(sub + testData))) }, ErrAbsent, ""},
		"being written":   {func(d dataDir) { d.add("current/rbw/") }, ErrNotFinalized, "rbw"},
		"being copied":    {func(d dataDir) { d.add("tmp/") }, ErrNotFinalized, "tmp"},
		"data alone":      {func(d dataDir) { d.add(sub); d.must(os.Remove(d.inPool(sub + testMeta))) }, ErrChanged, "generations []"},
		"a later generation": {func(d dataDir) {
			d.add(sub)
			d.must(os.Rename(d.inPool(sub+testMeta), d.inPool(sub+"blk_305419896_1002.meta")))
			d.write("current/"+testPool+"/"+sub+"blk_3054198961_1003.meta", "of another block")
		}, ErrChanged, "generations [1002], not of 1001"},
		"cut":             {func(d dataDir) { d.add(sub); d.must(os.Truncate(d.inPool(sub+testData), 4)) }, ErrChanged, "4 bytes, not 5"},
		"grown":           {func(d dataDir) { d.add(sub); d.must(os.Truncate(d.inPool(sub+testData), 6)) }, ErrChanged, "6 bytes"},
		"empty checksums": {func(d dataDir) { d.add(sub); d.must(os.Truncate(d.inPool(sub+testMeta), 0)) }, ErrChanged, "checksum"},
		"a link in place of data": {func(d dataDir) {
			d.add(sub)
			d.must(os.Rename(d.inPool(sub+testData), d.inPool("x")))
			d.must(os.Symlink("../../../../x", d.inPool(sub+testData)))
		}, ErrVolume, "symbolic link"},
		"a link in place of a directory": {func(d dataDir) {
			d.add(sub)
			d.must(os.Rename(d.inPool("current/finalized"), d.path("elsewhere")))
			d.must(os.Symlink(d.path("elsewhere"), d.inPool("current/finalized")))
		}, ErrVolume, "symbolic link"},
		"a directory in place of data": {func(d dataDir) { d.must(os.MkdirAll(d.inPool(sub+testData), 0o755)) }, ErrVolume, "something else"},
		"no VERSION":                   {func(d dataDir) { d.add(sub); d.must(os.Remove(d.inPool("current/VERSION"))) }, ErrVolume, "no such file"},
		"an older layout":              {func(d dataDir) { d.add(sub); d.write("current/"+testPool+"/current/VERSION", version(testPool, -55)) }, ErrVolume, "layout is -55"},
		"a newer layout":               {func(d dataDir) { d.add(sub); d.write("current/"+testPool+"/current/VERSION", version(testPool, -58)) }, ErrVolume, "layout is -58"},
		"another's VERSION":            {func(d dataDir) { d.add(sub); d.write("current/"+testPool+"/current/VERSION", version("BP-2", -57)) }, ErrVolume, `"BP-2"`},
		"a disk that is not mounted":   {func(d dataDir) { d.must(os.RemoveAll(d.path("current"))) }, ErrVolume, "mounted"},
		"a volume that is gone":        {func(d dataDir) { d.must(os.RemoveAll(d.dir)) }, ErrVolume, "no such file"},
		"a file for a volume":          {func(d dataDir) { d.must(os.RemoveAll(d.dir)); d.must(os.WriteFile(d.dir, nil, 0o600)) }, ErrVolume, "not a directory"},
	} {
		d := newDataDir(t, layout32)
		c.change(d)
		r, err := volumes(t, d).Find(t.Context(), testBlock)
		if err == nil {
			r.Close()
		}
		wantError(t, what, err, c.want, c.words)
		for _, other := range []error{ErrAbsent, ErrNotFinalized, ErrChanged, ErrRights, ErrVolume} {
			if other != c.want && errors.Is(err, other) {
				t.Errorf("%s: %v is %v, too", what, err, other)
			}
		}
		// Another volume is looked at all the same.
		good := newDataDir(t, layout32)
		good.add(sub)
		if r := found(t, volumes(t, d, good)); r.Volume != good.dir {
			t.Errorf("%s: found on %s", what, r.Volume)
		}
	}
}

// TestVersionIsRead: a layout that changes is seen.
func TestVersionIsRead(t *testing.T) {
	d := newDataDir(t, layout256)
	d.add(subdir(layout256))
	v := volumes(t, d)
	found(t, v)
	next := d.inPool("current/VERSION")
	d.must(os.WriteFile(next+".new", []byte(version(testPool, -57)), 0o600))
	d.must(os.Rename(next+".new", next))
	_, err := v.Find(t.Context(), testBlock)
	wantError(t, "after an upgrade that moved nothing", err, ErrAbsent)
	d.add(subdir(layout32))
	found(t, v)
}

// TestCheck does what data nodes do to replicas that somebody has open.
func TestCheck(t *testing.T) {
	sub := subdir(layout32)
	for what, c := range map[string]struct {
		change func(dataDir)
		want   error
	}{
		"nothing":                   {func(d dataDir) {}, nil},
		"kept for an upgrade":       {func(d dataDir) { d.must(os.Link(d.inPool(sub+testData), d.inPool("previous"))) }, nil},
		"chmod":                     {func(d dataDir) { d.must(os.Chmod(d.inPool(sub+testData), 0o644)) }, nil},
		"deleted":                   {func(d dataDir) { d.must(os.Remove(d.inPool(sub + testData))) }, ErrChanged},
		"deleted during an upgrade": {func(d dataDir) { d.must(os.Rename(d.inPool(sub+testData), d.inPool("trash"))) }, ErrChanged},
		"opened for appending": {func(d dataDir) {
			d.must(os.MkdirAll(d.inPool("current/rbw"), 0o755))
			d.must(os.Rename(d.inPool(sub+testData), d.inPool("current/rbw/"+testData)))
		}, ErrChanged},
		"another generation":         {func(d dataDir) { d.must(os.Rename(d.inPool(sub+testMeta), d.inPool(sub+"blk_305419896_1002.meta"))) }, ErrChanged},
		"cut":                        {func(d dataDir) { d.must(os.Truncate(d.inPool(sub+testData), 3)) }, ErrChanged},
		"replaced by a copy of it":   {func(d dataDir) { d.must(os.Rename(d.inPool(sub+testData), d.inPool("x"))); d.add(sub) }, ErrChanged},
		"a volume that is formatted": {func(d dataDir) { d.must(os.RemoveAll(d.path("current"))) }, ErrChanged},
		"a volume that is away":      {func(d dataDir) { d.must(os.Rename(d.dir, d.dir+"-")) }, ErrVolume},
	} {
		for _, settled := range []bool{false, true} {
			d := newDataDir(t, layout32)
			d.add(sub)
			r := found(t, volumes(t, d))
			r.was.at = r.was.at.Add(-time.Hour) // however long it took until then
			if settled {
				r.was.at = r.was.at.Add(2 * time.Hour) // as if that long had passed before
			}
			if r.was.untouched(r.was) != settled {
				t.Fatal("it must be settled, or not")
			}
			c.change(d)
			err := r.Check(t.Context())
			if settled && what == "a volume that is away" {
				// The files themselves are as they were.
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				continue
			}
			wantError(t, what, err, c.want)
			if again := r.Check(t.Context()); !errors.Is(again, c.want) {
				t.Errorf("%s: then %v", what, again)
			}
		}
	}
}

// TestCheckAtOnce: a change in the same tick of the clock as the last one is seen.
func TestCheckAtOnce(t *testing.T) {
	d := newDataDir(t, layout32)
	d.add(subdir(layout32))
	for i := range 300 {
		r := found(t, volumes(t, d))
		from, to := d.inPool(subdir(layout32)+testMeta), d.inPool("x")
		d.must(os.Rename(from, to))
		if err := r.Check(t.Context()); !errors.Is(err, ErrChanged) {
			t.Fatalf("round %d: %v", i, err)
		}
		d.must(os.Rename(to, from))
		if err := r.Check(t.Context()); err != nil {
			t.Fatalf("round %d: it is back: %v", i, err)
		}
	}
}

// TestNothingLeaks: no way through leaves a descriptor open.
func TestNothingLeaks(t *testing.T) {
	d, none := newDataDir(t, layout32), newDataDir(t, layout256)
	d.add(subdir(layout32))
	v := volumes(t, none, d)
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	absent, stale, cut := testBlock, testBlock, testBlock
	absent.ID.Number++
	stale.Generation--
	cut.Bytes--
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	before := 0
	for i := range 200 {
		if i == 10 {
			before = open()
		}
		r, err := v.Find(t.Context(), testBlock)
		d.must(err)
		d.must(r.Check(t.Context()))
		d.must(r.Close())
		for _, b := range []headrace.Block{absent, stale, cut} {
			if _, err := v.Find(t.Context(), b); err == nil {
				t.Fatalf("%+v is found", b)
			}
		}
		if r, err := v.Find(gone, testBlock); err == nil {
			r.Close()
		}
	}
	// Those whose asker had gone are closed at once, but later.
	testkit.Await(t, "descriptors to be closed", func() bool { return open() <= before })
}

func TestOpenRefuses(t *testing.T) {
	for what, dirs := range map[string][]string{"none": nil, "relative": {"data"}, "not clean": {"/data/../x"}, "twice": {"/a", "/b", "/a"}} {
		if _, err := Open(dirs); err == nil {
			t.Errorf("%s: %q is taken", what, dirs)
		}
	}
	v, err := Open([]string{"/a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, pool := range []string{"", "..", "BP-../..", "BP-1/x", "x", "BP-", "BP-\x00", "BP-" + strings.Repeat("1", 200)} {
		if _, err := v.Find(t.Context(), headrace.Block{ID: headrace.BlockID{Pool: pool}}); err == nil || errors.Is(err, ErrVolume) {
			t.Errorf("block pool %q: %v", pool, err)
		}
	}
}
