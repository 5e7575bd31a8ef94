package solo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/archive"
	"headrace/proc/checkpoint"
	"headrace/proc/needs"
	supervisor "headrace/proc/shim"
)

// Archive is Elsewhere by an archive that all machines of a cluster reach.
type Archive struct {
	// Name is what people call it.
	Name string
	// Open reaches it. It is called until it succeeds, whenever the archive is needed.
	Open     func(ctx context.Context) (*archive.Archive, error)
	Observer *archive.Observer
	// Node is the name of this machine.
	Node string

	mu   sync.Mutex
	open *archive.Archive
	// silent is until when nobody asks, in nanoseconds since 1970.
	silent atomic.Int64
}

// String implements Elsewhere.
func (a *Archive) String() string { return a.Name }

// reach opens the archive once.
func (a *Archive) reach(ctx context.Context) (*archive.Archive, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open != nil {
		return a.open, nil
	}
	opened, err := a.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the archive %s: %w", a.Name, err)
	}
	a.open = opened
	return opened, nil
}

// Sweep looks after what died machines have left there.
func (a *Archive) Sweep(ctx context.Context) (archive.Swept, error) {
	at, err := a.reach(ctx)
	if err != nil {
		return archive.Swept{}, err
	}
	return at.Sweep(ctx, archive.Ages{})
}

// archivedMeta is our part of an entry.
type archivedMeta struct {
	TaskDir string `json:"task_dir"`
}

// moving is a checkpoint between Take and its end.
type moving struct {
	claim   *archive.Claim
	fetched *archive.Fetched
	store   *checkpoint.Store
	task    string
}

func (p Parcel) owner() *linux.Credentials {
	if os.Geteuid() != 0 {
		return nil
	}
	owner := p.Spec.Credentials()
	return &owner
}

// launch is the command as it is compared with its relaunch. Localized files are
// looked at with the task's own rights.
func (p Parcel) launch() (archive.Launch, error) {
	resources, err := archive.Resources(p.Spec.Cwd, p.owner())
	return archive.Launch{App: p.Application, User: p.User, Argv: p.Spec.Argv, Env: p.Spec.Env, Resources: resources}, err
}

func (p Parcel) roots(l archive.Launch) []archive.Root {
	var roots []archive.Root
	for _, dir := range l.Roots() {
		roots = append(roots, archive.Root{Path: dir, Owner: p.owner()})
	}
	return roots
}

func (p Parcel) open() (*checkpoint.Store, error) {
	return checkpoint.Open(p.Store, checkpoint.Options{Compress: p.Compress})
}

// Send implements Elsewhere.
func (a *Archive) Send(ctx context.Context, p Parcel, begun func() error) error {
	im, err := p.newest()
	if err != nil {
		return err
	}
	portable, err := supervisor.PortableOf(im.Meta)
	if err != nil {
		return err
	}
	launch, err := p.launch()
	if err != nil {
		return err
	}
	carried, err := archive.Carry(ctx, wantedBy(p.Spec, portable.Needs), p.roots(launch))
	if err != nil {
		return err
	}
	for _, path := range portable.Needs.Writing {
		if slices.Contains(carried.Outside, path) {
			return fmt.Errorf("the task writes to %s, which is on this machine only", path)
		}
	}
	d := archive.Description{
		Key: launch.Key(), By: a.Node, App: p.Application, Container: string(p.Task), User: p.User, UID: p.Spec.UID,
		Command: launch.Command(),
	}
	if d.Meta, err = json.Marshal(archivedMeta{TaskDir: portable.TaskDir}); err != nil {
		return err
	}
	if d.Fingerprint, err = a.Observer.Machine(ctx); err != nil {
		return err
	}
	err = p.Spec.As(func() error { return d.Fingerprint.AddFiles(ctx, a.Observer, carried.Outside) })
	if err != nil {
		return err
	}
	at, err := a.reach(ctx)
	if err != nil {
		return err
	}
	_, err = at.Put(ctx, p.ID, d, func(w *archive.Writer) error {
		if err := begun(); err != nil {
			return err
		}
		if err := w.AddImage(im); err != nil {
			return err
		}
		return w.AddFiles(carried)
	})
	if errors.Is(err, archive.ErrUnclear) {
		return fmt.Errorf("%w: %w", errUnclear, err)
	}
	return err
}

func (p Parcel) newest() (*checkpoint.Image, error) {
	store, err := p.open()
	if err != nil {
		return nil, err
	}
	images, err := store.Images(string(p.Task))
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w in %s", proc.ErrNoImage, p.Store)
	}
	im := images[len(images)-1]
	return im, im.Err
}

// wantedBy are the files that a task needs: what it has open or mapped, and
// everything in its working directory.
func wantedBy(spec proc.Spec, n needs.Files) []archive.Wanted {
	wanted := []archive.Wanted{{Path: spec.Cwd, Tree: true}}
	for _, path := range slices.Concat(n.Open, n.Writing, n.Mapped) {
		wanted = append(wanted, archive.Wanted{Path: path})
	}
	return wanted
}

// Withdraw implements Elsewhere.
func (a *Archive) Withdraw(ctx context.Context, id string) error {
	at, err := a.reach(ctx)
	if err != nil {
		return err
	}
	err = at.Withdraw(ctx, id)
	if errors.Is(err, archive.ErrTaken) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errTaken, err)
	}
	return err
}

// Take implements Elsewhere. Where nothing waits it costs one look at the archive.
func (a *Archive) Take(ctx context.Context, p Parcel) (Taken, error) {
	// First the container, which no other machine has: names are cut off.
	claimant := string(p.Task) + "." + a.Node
	at, found, err := a.look(ctx, claimant, p.Again)
	switch {
	case err != nil:
		return Taken{}, fmt.Errorf("%w: %w", errUnknown, err)
	case found.used > 0:
		return Taken{}, errBegun
	case p.Again:
		if err := p.forget(); err != nil {
			return Taken{}, err
		}
	}
	if len(found.ready) == 0 {
		return Taken{}, errNothing
	}
	launch, err := p.launch()
	if err != nil {
		return Taken{}, err
	}
	key := launch.Key()
	if !found.ready[key] {
		return Taken{}, errNothing
	}
	claim, err := at.Claim(ctx, archive.Want{
		Key: key, UID: p.Spec.UID, Claimant: claimant,
		Accept: func(m *archive.Manifest) error { return a.accept(ctx, p.Spec, m) },
	})
	if err != nil {
		return Taken{}, err
	}
	return a.fetch(ctx, claim, p, launch)
}

// Every container that starts waits for a look at the archive. So who is not answered
// for lookTime starts without, and the others after it for lookPause.
const (
	lookTime  = 5 * time.Second
	lookPause = 30 * time.Second
)

// found is what a look at the archive has shown.
type found struct {
	ready map[string]bool // the keys of checkpoints that wait
	used  int             // what the claimant had begun to use
}

// look tells what there is; again: what the claimant had claimed is offered before.
// The archive may be a file system whose server is gone, and which nothing can
// interrupt: then a goroutine stays until it is back.
func (a *Archive) look(ctx context.Context, claimant string, again bool) (*archive.Archive, found, error) {
	if left := time.Until(time.Unix(0, a.silent.Load())); left > 0 {
		return nil, found{}, fmt.Errorf("%s does not answer; it is asked again in %v", a.Name, left.Round(time.Second))
	}
	type answer struct {
		at *archive.Archive
		found
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		var r answer
		if r.at, r.err = a.reach(ctx); r.err == nil && again {
			r.used, r.err = r.at.Reclaim(ctx, claimant)
		}
		if r.err == nil {
			r.ready, r.err = r.at.ReadyKeys(ctx)
		}
		answers <- r
	}()
	select {
	case r := <-answers:
		return r.at, r.found, r.err
	case <-ctx.Done():
		return nil, found{}, context.Cause(ctx)
	case <-time.After(lookTime):
		a.silent.Store(time.Now().Add(lookPause).UnixNano())
		return nil, found{}, fmt.Errorf("%s has not answered for %v", a.Name, lookTime)
	}
}

// forget removes what an earlier daemon has fetched for the task, and not used.
func (p Parcel) forget() error {
	store, err := p.open()
	if err != nil {
		return err
	}
	return store.Remove(string(p.Task))
}

// accept says why a checkpoint cannot be restored on this machine, for the user of
// the spec.
func (a *Archive) accept(ctx context.Context, spec proc.Spec, m *archive.Manifest) error {
	here, err := m.Fingerprint.Here(ctx, a.Observer, spec.As)
	if err != nil {
		return err
	}
	if differ := m.Fingerprint.Compare(here); len(differ) > 0 {
		return fmt.Errorf("this machine differs: %s", strings.Join(differ, "; "))
	}
	return nil
}

func (a *Archive) fetch(ctx context.Context, claim *archive.Claim, p Parcel, launch archive.Launch) (Taken, error) {
	m := &moving{claim: claim, task: string(p.Task)}
	var meta archivedMeta
	err := json.Unmarshal(claim.Manifest.Meta, &meta)
	if err == nil {
		m.store, err = p.open()
	}
	if err == nil {
		m.fetched, err = claim.Fetch(ctx, archive.Target{Store: m.store, Task: m.task, Roots: p.roots(launch), Resources: launch.Resources})
	}
	if err == nil {
		err = claim.Use(ctx)
	}
	if err != nil {
		giveUp := claim.Return
		if errors.Is(err, archive.ErrCorrupt) { // nobody else would fare better
			giveUp = claim.Remove
		}
		return Taken{}, errors.Join(err, m.undo(), giveUp(context.WithoutCancel(ctx)))
	}
	im := m.fetched.Image
	return Taken{
		From: claim.Manifest.Container + " on " + claim.Manifest.By, TaskDir: meta.TaskDir, handle: m,
		Image: ImageInfo{Seq: im.Seq, Chain: im.Chain, Stored: im.Stored, Total: im.Total, ToRead: im.BytesToRead(), At: im.TakenAt},
	}, nil
}

// undo removes what was fetched.
func (m *moving) undo() error {
	if m.fetched == nil {
		return nil
	}
	return errors.Join(m.fetched.Undo(), m.store.Remove(m.task))
}

// Restored implements Elsewhere.
func (a *Archive) Restored(ctx context.Context, t Taken) error {
	return t.handle.(*moving).claim.Remove(ctx)
}

// Failed implements Elsewhere.
func (a *Archive) Failed(ctx context.Context, t Taken, why error) error {
	m := t.handle.(*moving)
	giveUp := m.claim.Remove
	if errors.Is(why, proc.ErrState) { // nobody has looked at it
		giveUp = m.claim.Return
	}
	return errors.Join(m.undo(), giveUp(ctx))
}
