package migrate

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headrace/blob"
	"headrace/engine/yarn"
	"headrace/proc/checkpoint"
)

var testToken = []byte("the token of the test's cluster")

func newArchive(t testing.TB, p blob.Place, o Options) *Archive {
	t.Helper()
	a, err := New(t.Context(), p, testToken, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// testKey returns a key from a word.
func testKey(word string) string { return yarn.Launch{App: word}.Key() }

func describe(key string) Description {
	return Description{Key: testKey(key), By: "node1", App: "application_1_0001", User: "ann", UID: 1000, Meta: json.RawMessage(`{"a":1}`)}
}

// testStore returns a store of checkpoints.
func testStore(t testing.TB) *checkpoint.Store {
	t.Helper()
	s, err := checkpoint.Open(filepath.Join(t.TempDir(), "store"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// dumpImage makes an image of pages as criu dump would, by the protocol of its page
// server. Every third page is zero.
func dumpImage(t testing.TB, s *checkpoint.Store, task string, seed uint64, pages int) *checkpoint.Image {
	t.Helper()
	return dumpImageWith(t, s, task, seed, pages, []byte("meta"))
}

// dumpImageWith is dumpImage with the supervisor's own record.
func dumpImageWith(t testing.TB, s *checkpoint.Store, task string, seed uint64, pages int, meta []byte) *checkpoint.Image {
	t.Helper()
	w, err := s.Begin(task, checkpoint.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	request := func(cmd uint32, flags, n, vaddr uint64, answer int) {
		b := binary.LittleEndian.AppendUint32(nil, uint32(flags)<<16|cmd)
		b = append(b, 0, 0, 0, 0)
		for _, v := range []uint64{n, vaddr, 7<<8 | 1} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		if _, err := w.PageSocket().Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(w.PageSocket(), make([]byte, answer)); err != nil {
			t.Fatal(err)
		}
	}
	request(4, 0, 0, 0, 1) // PS_IOV_OPEN2
	random := rand.NewChaCha8([32]byte{byte(seed)})
	request(6, 4, uint64(pages), 0x10000, 0) // PS_IOV_ADD_F
	page, all := make([]byte, 4096), []byte(nil)
	for i := range pages {
		clear(page)
		if i%3 != 0 {
			random.Read(page)
		}
		if i%5 == 0 && i%3 != 0 {
			clear(page)
			page[0] = 1 // the same in every image
		}
		all = append(all, page...)
	}
	if _, err := w.PageSocket().Write(all); err != nil {
		t.Fatal(err)
	}
	request(0x1024, 0, 0, 0, 4) // PS_IOV_FORCE_CLOSE
	if err := os.WriteFile(filepath.Join(w.Dir(), "inventory.img"), []byte("inventory"), 0o600); err != nil {
		t.Fatal(err)
	}
	im, err := w.Commit(meta)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// addBytes adds a file of the image section with contents.
func addBytes(t testing.TB, name string, contents []byte) func(*Writer) error {
	path := filepath.Join(t.TempDir(), "contents")
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(w *Writer) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return w.add(File{In: InImage, Path: "000001/" + name, Type: Regular, Size: int64(len(contents))}, f)
	}
}

func putEntry(t testing.TB, a *Archive, key string) *Manifest {
	t.Helper()
	m, err := a.Put(t.Context(), NewID(), describe(key), addBytes(t, "x", []byte("contents of "+key)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func want(key string) Want { return Want{Key: testKey(key), UID: 1000, Claimant: "node2"} }

// fetched reads a claim's files.
func fetched(ctx context.Context, c *Claim) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := c.each(ctx, func(f File, data *Contents) error {
		b := make([]byte, f.Size)
		files[f.Path] = b
		return data.Each(func(off int64, p []byte) error { copy(b[off:], p); return nil })
	})
	return files, err
}

func statesOf(t testing.TB, a *Archive) map[string]State {
	t.Helper()
	list, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]State)
	for _, e := range list {
		if _, twice := m[e.ID]; twice {
			t.Errorf("entry %s is there twice", e.ID)
		}
		m[e.ID] = e.State
	}
	return m
}

// TestPutAndFetch moves a chain of images from store to store.
func TestPutAndFetch(t *testing.T) {
	for name, o := range map[string]Options{"plain": {}, "compressed": {Compress: true}} {
		t.Run(name, func(t *testing.T) {
			eachPlace(t, func(t *testing.T, p blob.Place) {
				a, from, to := newArchive(t, p, o), testStore(t), testStore(t)
				dumpImage(t, from, "t1", 1, 600)
				im := dumpImage(t, from, "t1", 2, 600)
				if im.Chain != 2 {
					t.Fatalf("chain of %d", im.Chain)
				}
				put, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error { return w.AddImage(im) })
				if err != nil {
					t.Fatal(err)
				}
				c, err := a.Claim(t.Context(), want("k"))
				if err != nil {
					t.Fatal(err)
				}
				if c.Manifest.ID != put.ID || string(c.Manifest.Meta) != `{"a":1}` || !reflect.DeepEqual(c.Manifest.Files, put.Files) {
					t.Errorf("claimed %+v", c.Manifest)
				}
				got, err := c.Fetch(t.Context(), Target{Store: to, Task: "t9"})
				if err != nil {
					t.Fatal(err)
				}
				if err := got.Image.Verify(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				sameImages(t, from, im, to, got.Image)
				if err := errors.Join(c.Use(t.Context()), c.Remove(t.Context())); err != nil {
					t.Fatal(err)
				}
				if left := statesOf(t, a); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

// sameImages compares all files but the manifests.
func sameImages(t *testing.T, from *checkpoint.Store, a *checkpoint.Image, to *checkpoint.Store, b *checkpoint.Image) {
	t.Helper()
	if string(b.Meta) != string(a.Meta) || b.Chain != a.Chain || b.Total != a.Total {
		t.Errorf("image %+v, want %+v", b, a)
	}
	names, err := filepath.Glob(filepath.Join(from.Dir, a.Task, "0*", "*"))
	if err != nil || len(names) < 8 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		rel, err := filepath.Rel(filepath.Join(from.Dir, a.Task), name)
		if err != nil {
			t.Fatal(err)
		}
		if path.Base(rel) == "manifest" || path.Base(rel) == "parent" {
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(to.Dir, b.Task, rel))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (%v)", rel, err)
		}
	}
}

// TestForeign: what was not made with our token, or was changed, is not used.
func TestForeign(t *testing.T) {
	p := newDir(t)
	ours := newArchive(t, p, Options{})
	theirs, err := New(t.Context(), p, []byte("the token of another cluster"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := putEntry(t, theirs, "k")
	passed := map[string]error{}
	w := want("k")
	w.Passed = func(id string, why error) { passed[id] = why }
	if _, err := ours.Claim(t.Context(), w); !errors.Is(err, ErrNone) || !errors.Is(err, ErrForged) {
		t.Errorf("of another cluster: %v", err)
	}
	mine := putEntry(t, ours, "k")
	claim, err := ours.Claim(t.Context(), w)
	if err != nil || claim.Manifest.ID != mine.ID || len(passed) != 1 || !errors.Is(passed[m.ID], ErrForged) {
		t.Errorf("%v, %v; passed over: %v", claim, err, passed)
	}
	both, err := New(t.Context(), p, testToken, Options{AcceptedTokens: []string{"the token of another cluster"}})
	if err != nil {
		t.Fatal(err)
	}
	claim, err = both.Claim(t.Context(), want("k"))
	if err != nil || claim.Manifest.ID != m.ID {
		t.Fatalf("%v, %v, of a token that is accepted", claim, err)
	}
	if err := claim.Return(t.Context()); err != nil {
		t.Fatal(err)
	}
	// An entry under another key than its own.
	dir := filepath.Join(p.String(), "ready")
	if err := os.Rename(filepath.Join(dir, m.Key+"."+m.ID), filepath.Join(dir, testKey("other")+"."+m.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Claim(t.Context(), want("other")); !errors.Is(err, ErrForged) {
		t.Errorf("under another key: %v", err)
	}
	// One without a manifest.
	if err := os.Mkdir(filepath.Join(dir, testKey("empty")+"."+NewID()), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Claim(t.Context(), want("empty")); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "manifest") {
		t.Errorf("without manifest: %v", err)
	}
	if _, err := New(t.Context(), p, []byte("short"), Options{}); err == nil {
		t.Error("took a short token")
	}
	if _, err := New(t.Context(), p, testToken, Options{AcceptedTokens: []string{"short"}}); err == nil {
		t.Error("accepts a short token")
	}
}

// TestEveryByte: whatever byte of an entry changes, it is noticed, and nothing is
// imported.
func TestEveryByte(t *testing.T) {
	for name, o := range map[string]Options{"plain": {}, "compressed": {Compress: true}} {
		t.Run(name, func(t *testing.T) {
			p := newDir(t)
			a, from := newArchive(t, p, o), testStore(t)
			im := dumpImage(t, from, "t1", 1, 20)
			m, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error { return w.AddImage(im) })
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(p.String(), "ready", m.Key+"."+m.ID)
			for _, file := range []string{manifestName, partName(0)} {
				whole, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				step := max(1, len(whole)/100)
				for i := 0; i < len(whole); i += step {
					bad := bytes.Clone(whole)
					bad[i] ^= 0x20
					damage(t, a, dir, file, bad)
				}
				damage(t, a, dir, file, whole[:len(whole)-1])
				damage(t, a, dir, file, append(bytes.Clone(whole), 0))
				damage(t, a, dir, file, nil)
				if err := os.WriteFile(filepath.Join(dir, file), whole, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c, err := a.Claim(t.Context(), want("k"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(p.String(), c.Entry().dir(), partName(0))); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Fetch(t.Context(), Target{Store: testStore(t), Task: "t"}); err == nil {
				t.Error("fetched without data")
			}
		})
	}
}

// damage writes a file of an entry and expects that it is noticed.
func damage(t *testing.T, a *Archive, dir, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), b, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(t.Context(), want("k"))
	if err == nil {
		var got map[string][]byte
		if got, err = fetched(t.Context(), c); err == nil {
			t.Fatalf("%s: unnoticed: %d files", file, len(got))
		}
		if rerr := c.Return(t.Context()); rerr != nil {
			t.Fatal(rerr)
		}
	}
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) && !errors.Is(err, ErrVersion) {
		t.Fatalf("%s: %v", file, err)
	}
}

func TestPutFails(t *testing.T) {
	eachPlace(t, func(t *testing.T, p blob.Place) {
		a := newArchive(t, p, Options{})
		oops := errors.New("oops")
		big := addBytes(t, "big", make([]byte, 20<<20))
		for what, add := range map[string]func(*Writer) error{
			"at once":    func(*Writer) error { return oops },
			"after data": func(w *Writer) error { return errors.Join(big(w), oops) },
		} {
			if _, err := a.Put(t.Context(), NewID(), describe("k"), add); !errors.Is(err, oops) {
				t.Errorf("%s: %v", what, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := a.Put(ctx, NewID(), describe("k"), func(w *Writer) error { cancel(); return big(w) })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		bad := describe("k")
		bad.Key = "../../x"
		if _, err := a.Put(t.Context(), NewID(), bad, big); err == nil {
			t.Error("took an impossible key")
		}
		if _, err := a.Put(t.Context(), "../x", describe("k"), big); err == nil {
			t.Error("took an impossible id")
		}
		if got := statesOf(t, a); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
	})
}

// TestManyBlocks: entries of no, one and several blocks and parts, with holes.
// failing is a place of which some operations fail.
type failing struct {
	blob.Place
	rename func(ctx context.Context, from, to string) error // nil: as always
	open   func(ctx context.Context, name string) error
	read   func(name string, r io.ReadCloser) io.ReadCloser
	touch  func(name string)
}

func (p *failing) Rename(ctx context.Context, from, to string) error {
	if p.rename != nil {
		if err := p.rename(ctx, from, to); err != nil {
			return err
		}
	}
	return p.Place.Rename(ctx, from, to)
}

func (p *failing) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if p.open != nil {
		if err := p.open(ctx, name); err != nil {
			return nil, err
		}
	}
	r, err := p.Place.Open(ctx, name)
	if err == nil && p.read != nil {
		r = p.read(name, r)
	}
	return r, err
}

func (p *failing) Touch(ctx context.Context, name string) error {
	if p.touch != nil {
		p.touch(name)
	}
	return p.Place.Touch(ctx, name)
}

// TestPutInterrupted: nobody is told that others may have an entry before all of it is there; and when its machine
// stops at that very moment, it finds it later.
func TestPutInterrupted(t *testing.T) {
	p := &failing{Place: newDir(t)}
	a := newArchive(t, p, Options{})
	for _, at := range []string{"upload", "commit"} {
		ctx, cancel := context.WithCancel(t.Context())
		id, offered := NewID(), 0
		_, err := a.Put(ctx, id, describe("k"), func(w *Writer) error {
			w.Committing(func() error {
				if offered++; statesOf(t, a)[id] != Uploading {
					t.Error("others may have it already")
				}
				return nil
			})
			p.rename = func(_ context.Context, _, to string) error {
				if !strings.HasPrefix(to, "ready/") {
					return nil
				}
				cancel()
				return ctx.Err()
			}
			if at == "upload" {
				cancel()
			}
			return addBytes(t, "x", []byte("some"))(w)
		})
		p.rename = nil
		cancel()
		sweep(t, a, Ages{Upload: -1}, Swept{}) // as if an hour had passed
		if at == "upload" {
			if offered > 0 || !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnclear) {
				t.Errorf("%v; it was offered %d times", err, offered)
			}
			continue
		}
		if offered != 1 || !errors.Is(err, ErrUnclear) {
			t.Errorf("%v; it was offered %d times", err, offered)
		}
		if err := a.Withdraw(t.Context(), id); err != nil {
			t.Errorf("withdraw what nobody has: %v", err)
		}
	}
	_, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error {
		w.Committing(func() error { return errors.ErrUnsupported })
		return addBytes(t, "x", []byte("some"))(w)
	})
	if !errors.Is(err, errors.ErrUnsupported) || len(statesOf(t, a)) > 0 {
		t.Errorf("it could not be written down that others may have it: %v, %v", err, statesOf(t, a))
	}
}

func TestManyBlocks(t *testing.T) {
	sizes := []int64{0, 1, blockSize - 3, blockSize, blockSize + 1, 5*blockSize + 12345}
	for _, o := range []Options{{Compress: true}, {}} {
		if !o.Compress && !testing.Short() {
			sizes = append(sizes, (partBlocks+3)*blockSize)
		}
		a := newArchive(t, newDir(t), o)
		for _, size := range sizes {
			name := filepath.Join(t.TempDir(), "file")
			f, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			random := rand.NewChaCha8([32]byte{byte(size)})
			b := make([]byte, size)
			random.Read(b)
			if size > 3<<20 {
				clear(b[1<<20 : 2<<20]) // a hole
				if _, err := f.WriteAt(b[:1<<20], 0); err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt(b[2<<20:], 2<<20); err != nil {
					t.Fatal(err)
				}
			} else if _, err := f.Write(b); err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(size + 4096); err != nil {
				t.Fatal(err)
			}
			b = append(b, make([]byte, 4096)...)
			m, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error {
				return w.add(File{In: InImage, Path: "000001/x", Type: Regular, Size: size + 4096}, f)
			})
			f.Close()
			if err != nil {
				t.Fatal(err)
			}
			if size > 3<<20 && m.Raw > size-(1<<20)+8192 {
				t.Errorf("%d bytes are in the stream of a file of %d with a hole", m.Raw, size)
			}
			c, err := a.Claim(t.Context(), want("k"))
			if err != nil {
				t.Fatal(err)
			}
			files, err := fetched(t.Context(), c)
			if err != nil || !bytes.Equal(files["000001/x"], b) {
				t.Errorf("%d bytes: %d came back, or others (%v)", len(b), len(files["000001/x"]), err)
			}
			if err := c.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFileThatShrinks: a file that gets shorter while it is read is an error.
func TestFileThatShrinks(t *testing.T) {
	a := newArchive(t, newDir(t), Options{})
	add := addBytes(t, "x", []byte("short"))
	_, err := a.Put(t.Context(), NewID(), describe("k"), func(w *Writer) error {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteString("five!"); err != nil {
			return err
		}
		return errors.Join(add(w), w.add(File{In: InImage, Path: "000001/y", Type: Regular, Size: 5000}, f))
	})
	if err != nil && !strings.Contains(err.Error(), "shorter") {
		t.Error(err)
	}
}

func TestEntryNames(t *testing.T) {
	key, id := testKey("k"), NewID()
	for name, want := range map[string][]State{
		key + "." + id:                           {Uploading, Ready},
		key + "." + id + ".0123456789abcdef.a.b": {Claimed, Used},
		key:                                      nil,
		key + ".x":                               nil,
		"x." + id:                                nil,
		key + "." + id + ".x":                    nil,
		"":                                       nil,
	} {
		for _, st := range states[:4] {
			e, ok := parseEntry(st, name)
			if ok != slices.Contains(want, st) {
				t.Errorf("%q as %s: %v", name, st, ok)
			}
			if ok && (e.Key != key || e.ID != id || e.dir() != string(st)+"/"+name) {
				t.Errorf("%q: %+v", name, e)
			}
		}
	}
	if got := plainClaimant("node 1/ä.c_1" + strings.Repeat("x", 100)); len(got) != 60 || !strings.HasPrefix(got, "node-1--.c_1x") {
		t.Errorf("claimant %q", got)
	}
}
