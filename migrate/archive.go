package migrate

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"headrace/blob"
	"headrace/internal/crash"
)

// State is what has become of an entry.
type State string

// The states, which are also the directories of a place.
const (
	Uploading State = "new"     // being written, or left so
	Ready     State = "ready"   // waits for somebody to claim it
	Claimed   State = "claimed" // somebody fetches it
	Used      State = "used"    // somebody has begun to restore it: nobody else ever may
	removed   State = "removed" // about to be removed
)

var states = []State{Uploading, Ready, Claimed, Used, removed}

// withdrawTime bounds what takes an entry away without moving data.
const withdrawTime = 30 * time.Second

// Options of an archive. The zero value works.
type Options struct {
	// Compress stores data compressed (zstd, its fastest level).
	Compress bool
	// AcceptedTokens are those of which entries are used as well.
	AcceptedTokens []string
}

// An Archive is a place with a token. All its methods may be called by several
// goroutines, processes and machines at once.
type Archive struct {
	place blob.Place
	seal  sealer
	o     Options
}

// New returns the archive in a place. The token is the cluster's; entries made with
// another are not used.
func New(ctx context.Context, p blob.Place, token []byte, o Options) (*Archive, error) {
	s, err := newSealer(token, o.AcceptedTokens)
	if err != nil {
		return nil, err
	}
	for _, st := range states {
		if err := p.Mkdir(ctx, string(st)); err != nil {
			return nil, fmt.Errorf("archive %s: %w", p, err)
		}
	}
	return &Archive{p, s, o}, nil
}

func (a *Archive) String() string { return a.place.String() }

// Entry names an entry as it was found.
type Entry struct {
	State    State
	Key, ID  string
	Claimant string    // who has claimed or used it
	Modified time.Time // when it was put, claimed, renewed or used, by the place's clock

	name  string // of its directory
	whole bool   // it has a manifest; only list tells
}

func (e Entry) dir() string { return path.Join(string(e.State), e.name) }

// parseEntry returns false for a directory that is not an entry's. Names are KEY.ID for
// entries that nobody has claimed, and KEY.ID.NONCE.CLAIMANT for the others.
func parseEntry(st State, name string) (Entry, bool) {
	parts := strings.SplitN(name, ".", 4)
	if len(parts) != 2 && len(parts) != 4 || checkKey(parts[0]) != nil || checkID(parts[1]) != nil {
		return Entry{}, false
	}
	e := Entry{State: st, Key: parts[0], ID: parts[1], name: name}
	if len(parts) == 4 {
		e.Claimant = parts[3]
	}
	return e, (len(parts) == 4) == (st == Claimed || st == Used)
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// Put adds an entry. add writes its files. The entry can be claimed, and survives
// what the place survives, when Put has returned; until then nobody sees any of it.
// If Put fails, or its process dies, Sweep removes what is left.
//
// The error is ErrUnclear if it is open whether others can claim the entry. Then,
// and after a Put that was interrupted when it had called what Writer.Committing has been given, the
// task may be restored where it was only when Withdraw has succeeded. id names the
// entry, so that it can be written down by then; see NewID.
func (a *Archive) Put(ctx context.Context, id string, d Description, add func(*Writer) error) (*Manifest, error) {
	m, err := a.put(ctx, id, d, add)
	if err != nil {
		return nil, fmt.Errorf("archive checkpoint in %s: %w", a.place, err)
	}
	return m, nil
}

// NewID makes a name for an entry that is to be put. It begins with the time, so that names tell which entry of a key is the
// oldest, whatever has become of it since.
func NewID() string { return fmt.Sprintf("%014x", time.Now().UnixMicro()) + randomHex(9) }

func (a *Archive) put(ctx context.Context, id string, d Description, add func(*Writer) error) (*Manifest, error) {
	if err := errors.Join(checkKey(d.Key), checkID(id)); err != nil {
		return nil, err
	}
	m := &Manifest{Description: d, ID: id, Compressed: a.o.Compress}
	name := d.Key + "." + id
	dir := path.Join(string(Uploading), name)
	if err := a.place.Mkdir(ctx, dir); err != nil {
		return nil, err
	}
	crash.Here("archive.begun")
	if err := a.upload(ctx, m, dir, add); err != nil {
		return nil, errors.Join(err, a.abandon(ctx, name))
	}
	crash.Here("archive.before-commit")
	if err := a.place.Rename(ctx, dir, path.Join(string(Ready), name)); err != nil {
		// If the caller ends it may not come to write down that nobody has the entry, and not find
		// it again: what is withdrawn cannot be told from what was taken and used.
		werr := ctx.Err()
		if werr == nil {
			werr = a.withdraw(context.WithoutCancel(ctx), id)
		}
		if werr != nil {
			return nil, fmt.Errorf("%w: %w; %w", ErrUnclear, err, werr)
		}
		return nil, err
	}
	crash.Here("archive.committed")
	return m, nil
}

// abandon removes an upload. The caller's context may be why it failed.
func (a *Archive) abandon(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTime)
	defer cancel()
	err := a.discard(ctx, Entry{State: Uploading, name: name})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a Sweep took it
	}
	return err
}

// Withdraw removes an entry that was put, or begun to be put, if nobody has claimed
// it. When it succeeds nobody ever will. The error is ErrTaken if somebody has, and
// fs.ErrNotExist if the entry is not there: it never was, or it was taken, used and
// removed. In both cases the task must not be restored here.
func (a *Archive) Withdraw(ctx context.Context, id string) error {
	if err := a.withdraw(ctx, id); err != nil {
		return fmt.Errorf("withdraw archived checkpoint %s from %s: %w", id, a.place, err)
	}
	return nil
}

func (a *Archive) withdraw(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawTime)
	defer cancel()
	// In the order in which an entry changes its state, so that none is overlooked.
	for _, st := range []State{Uploading, Ready, Claimed, Used} {
		list, err := a.names(ctx, st)
		if err != nil {
			return err
		}
		for _, e := range list {
			if e.ID != id {
				continue
			}
			if st == Claimed || st == Used {
				return fmt.Errorf("%w by %s", ErrTaken, e.Claimant)
			}
			if err := a.discard(ctx, e); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return fs.ErrNotExist
}

func (a *Archive) upload(ctx context.Context, m *Manifest, dir string, add func(*Writer) error) error {
	blocks, err := newBlockWriter(ctx, a.place, dir, a.o.Compress)
	if err != nil {
		return err
	}
	w := &Writer{ctx: ctx, w: bufio.NewWriterSize(blocks, 64<<10), m: m, buf: make([]byte, maxChunk)}
	if err = add(w); err == nil {
		err = w.w.Flush()
	}
	if err = blocks.finish(err); err != nil {
		return err
	}
	m.Raw, m.Size, m.Parts, m.Blocks = blocks.raw, blocks.size, blocks.parts, blocks.blocks
	if m.Made, err = a.place.Now(ctx); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	b, err := m.encode(a.seal)
	if err != nil {
		return err
	}
	crash.Here("archive.before-manifest")
	err = a.place.Create(ctx, path.Join(dir, manifestName), func(to io.Writer) error {
		_, err := to.Write(b)
		return err
	})
	if err == nil && w.committing != nil {
		err = w.committing()
	}
	return err
}

// manifest reads and checks the manifest of an entry.
func (a *Archive) manifest(ctx context.Context, e Entry) (*Manifest, error) {
	f, err := a.place.Open(ctx, path.Join(e.dir(), manifestName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("%w: its manifest is longer than %d bytes", ErrCorrupt, maxManifest)
	}
	m, err := parseManifest(a.seal, b)
	if err != nil {
		return nil, err
	}
	if m.Key != e.Key || m.ID != e.ID {
		return nil, fmt.Errorf("%w: the manifest is that of another entry, %s.%s", ErrForged, m.Key, m.ID)
	}
	return m, nil
}

// List returns all entries, those that are ready first.
func (a *Archive) List(ctx context.Context) ([]Entry, error) {
	var all []Entry
	for _, st := range []State{Ready, Claimed, Used, Uploading} {
		list, err := a.list(ctx, st)
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", a.place, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// names returns the entries in one state. Modified is that of the directory, not of
// what is in it.
func (a *Archive) names(ctx context.Context, st State) ([]Entry, error) {
	objects, err := a.place.List(ctx, string(st))
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, o := range objects {
		if e, ok := parseEntry(st, o.Name); ok && o.Dir {
			e.Modified = o.Modified
			list = append(list, e)
		}
	}
	return list, nil
}

// list returns the entries in one state.
func (a *Archive) list(ctx context.Context, st State) ([]Entry, error) {
	names, err := a.names(ctx, st)
	if err != nil {
		return nil, err
	}
	list := names[:0]
	for _, e := range names {
		inside, err := a.place.List(ctx, e.dir())
		if errors.Is(err, fs.ErrNotExist) {
			continue // renamed meanwhile
		}
		if err != nil {
			return nil, err
		}
		for _, f := range inside {
			e.whole = e.whole || f.Name == manifestName
			if f.Modified.After(e.Modified) {
				e.Modified = f.Modified
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// Remove removes an entry that List has found, in whatever state it was. It fails
// with fs.ErrNotExist if it is in another state now.
func (a *Archive) Remove(ctx context.Context, e Entry) error {
	if err := a.discard(ctx, e); err != nil {
		return fmt.Errorf("remove archived checkpoint %s from %s: %w", e.ID, a.place, err)
	}
	return nil
}

// discard takes an entry out of its state in one step before it removes its files,
// so that nobody takes what is left for an entry.
func (a *Archive) discard(ctx context.Context, e Entry) error {
	gone := path.Join(string(removed), randomHex(16))
	if err := a.place.Rename(ctx, e.dir(), gone); err != nil {
		return err
	}
	crash.Here("archive.discarded")
	return a.place.Remove(ctx, gone)
}
