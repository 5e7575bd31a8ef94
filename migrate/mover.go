package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headrace/engine/yarn"
	"headrace/proc"
	"headrace/proc/checkpoint"
	supervisor "headrace/proc/shim"
)

// A Mover sends checkpoints of containers to an archive that all machines of a cluster
// reach, and takes them from there. Its methods may block; they may be called
// concurrently.
type Mover struct {
	// Name is what people call it.
	Name string
	// Open reaches it. It is called until it succeeds, whenever the archive is needed, and again when it could not be swept.
	Open     func(ctx context.Context) (*Archive, error)
	Observer *Observer
	// Ended returns those of some applications that have ended for good, so that nobody will ask for their checkpoints any more;
	// nil: that is not known of any.
	Ended func(ctx context.Context, applications []string) ([]string, error)
	// Node is the name of this machine.
	Node string
	// Log gets structured messages; nil: none.
	Log *slog.Logger

	mu   sync.Mutex // also while the archive is opened, which may hang
	open *Archive

	// applications are those of the entries that Sweep has found ready, by their ids; of the goroutine that sweeps.
	applications map[string]string

	noted sync.Mutex
	// problem is why the archive could not be used when it was last looked at.
	problem string

	// silent is until when nobody asks, in nanoseconds since 1970; unanswered are the looks that were given up and go on.
	silent, unanswered atomic.Int64
}

// String names the archive, for people.
func (m *Mover) String() string { return m.Name }

// reach opens the archive once.
func (m *Mover) reach(ctx context.Context) (*Archive, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != nil {
		return m.open, nil
	}
	opened, err := m.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the archive %s: %w", m.Name, err)
	}
	m.open = opened
	return opened, nil
}

// leave has the archive opened again when it is needed.
func (m *Mover) leave(at *Archive) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == at {
		m.open = nil // who is at something there goes on with it
	}
}

// archivedMeta is our part of an entry.
type archivedMeta struct {
	TaskDir string `json:"task_dir"`
	// Record is the version of the record that the image carries; 0: an older Headrace did not say.
	Record int `json:"record,omitempty"`
}

// moving is a checkpoint between Take and Taken.End.
type moving struct {
	claim   *Claim
	fetched *Fetched
	store   *checkpoint.Store
	task    string
	// kept ends the renewing of the claim, which goes on until it is used.
	kept func()
}

// Send puts a checkpoint into the archive. After ErrUnclear others may have it all the
// same, until Withdraw has succeeded. It calls offering when all is there and nobody can have
// it yet, and fails with offering. Until then nothing needs to be withdrawn.
func (m *Mover) Send(ctx context.Context, p Parcel, offering func() error) error {
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
	wanted, err := p.wanted(portable, launch)
	if err != nil {
		return err
	}
	carried, err := Carry(ctx, wanted, p.roots(launch))
	if err != nil {
		return err
	}
	if err := p.noneStays(ctx, carried, launch); err != nil {
		return err
	}
	for _, path := range portable.Needs.Writing {
		if slices.Contains(carried.Outside, path) {
			return fmt.Errorf("the task writes to %s, which is on this machine only", path)
		}
	}
	d := Description{
		Key: launch.Key(), By: m.Node, App: p.Application, Container: string(p.Task), User: p.User, UID: p.Spec.UID,
		Command: launch.Command(),
	}
	if d.Meta, err = json.Marshal(archivedMeta{TaskDir: portable.TaskDir, Record: portable.Version}); err != nil {
		return err
	}
	if d.Fingerprint, err = m.Observer.Machine(ctx); err != nil {
		return err
	}
	err = p.Spec.As(func() error { return d.Fingerprint.AddFiles(ctx, m.Observer, carried.Outside) })
	if err != nil {
		return err
	}
	at, err := m.reach(ctx)
	if err != nil {
		return err
	}
	_, err = at.Put(ctx, p.ID, d, func(w *Writer) error {
		w.Committing(offering)
		if err := w.AddImage(im); err != nil {
			return err
		}
		return w.AddFiles(carried)
	})
	return err
}

// Withdraw takes a checkpoint back; ErrElsewhere when somebody else has, or may have had it.
func (m *Mover) Withdraw(ctx context.Context, id string) error {
	at, err := m.reach(ctx)
	if err != nil {
		return err
	}
	err = at.Withdraw(ctx, id)
	if errors.Is(err, ErrTaken) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrElsewhere, err)
	}
	return err
}

// Take gets a checkpoint of the same command into a store, as the task's; ErrNothing when
// there is none that can be used here, ErrUnknown when the archive, or CRIU, does not answer. From
// then on it is the task's, for as long as ctx lasts and this machine reaches the archive, and from
// Taken.Use on for good. What an earlier daemon has begun to fetch for the task
// is fetched again. What it has used is still here, and the task's to go on from, as only its supervisor can have begun to
// restore it, which then refuses to do so again; ErrBegun when it is not here any more. proc.ErrNotNow: the store cannot be used now; what waits
// goes on waiting. Where nothing waits it costs one look at the archive.
func (m *Mover) Take(ctx context.Context, p Parcel) (Taken, error) {
	// First the container, which no other machine has: names are cut off.
	claimant := string(p.Task) + "." + m.Node
	at, found, err := m.survey(ctx, claimant, p.Again)
	switch {
	case err != nil:
		return Taken{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	case len(found.used) > 0:
		return m.takeUp(ctx, at, found.used[0], p)
	case p.Again:
		if err := p.forget(); err != nil {
			return Taken{}, err
		}
	}
	if len(found.ready) == 0 {
		return Taken{}, ErrNothing
	}
	launch, err := p.launch()
	if err != nil {
		return Taken{}, err
	}
	key := launch.Key()
	if !found.ready[key] {
		return Taken{}, ErrNothing
	}
	machine, err := m.machine(ctx)
	if err != nil {
		return Taken{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	until := sync.OnceValue(func() time.Time { return time.Now().Add(removalTime) }) // for all that are looked at
	claim, err := at.Claim(ctx, Want{
		Key: key, UID: p.Spec.UID, Claimant: claimant,
		Passed: m.passed,
		Accept: func(of *Manifest) error {
			if err := m.accept(ctx, p.Spec, machine, of); err != nil || slices.Contains(found.offered, of.ID) {
				return err // what lies here of one that it had claimed before, it has fetched
			}
			return awaitRemoval(ctx, launch, of, until())
		},
	})
	if err != nil {
		return Taken{}, err
	}
	return m.fetch(ctx, claim, p, launch)
}

// passed names a checkpoint that the container's command might have gone on from.
func (m *Mover) passed(id string, why error) {
	if m.Log != nil {
		m.Log.Warn("a checkpoint in the archive cannot be used, and the command that it is of does not go on from it", "archive", m.Name, "checkpoint", id, "err", why)
	}
}

// Every container that starts waits for a look at the archive. So who is not answered
// for lookTime starts without, and the others after it for lookPause, and for as long as
// an earlier look is not answered: each may take a thread.
const (
	lookTime  = 5 * time.Second
	lookPause = 30 * time.Second
)

// found is what a look at the archive has shown.
type found struct {
	ready   map[string]bool // the keys of checkpoints that wait
	offered []string        // the ids of those among them that the claimant had claimed
	used    []Entry         // what the claimant had begun to use
}

// survey tells what there is; again: what the claimant had claimed is offered before.
// The archive may be a file system whose server is gone, and which nothing can
// interrupt: then a goroutine stays until it is back.
func (m *Mover) survey(ctx context.Context, claimant string, again bool) (*Archive, found, error) {
	if left := time.Until(time.Unix(0, m.silent.Load())); left > 0 {
		return nil, found{}, fmt.Errorf("%s does not answer; it is asked again in %v", m.Name, left.Round(time.Second))
	}
	if m.unanswered.Load() > 0 {
		return nil, found{}, fmt.Errorf("%s does not answer; it has not answered for longer than %v", m.Name, lookPause)
	}
	type answer struct {
		at *Archive
		found
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		var r answer
		if r.at, r.err = m.reach(ctx); r.err == nil && again {
			r.offered, r.used, r.err = r.at.Reclaim(ctx, claimant)
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
		m.silent.Store(time.Now().Add(lookPause).UnixNano())
		m.unanswered.Add(1)
		go func() {
			<-answers
			m.unanswered.Add(-1)
		}()
		return nil, found{}, fmt.Errorf("%s has not answered for %v", m.Name, lookTime)
	}
}

// machineTime is for how long this machine is asked what it is: its CRIU does not say so while it is being replaced. Tests shorten it.
var machineTime = 10 * time.Second

// machine is Observer.Machine, asked until it succeeds.
func (m *Mover) machine(ctx context.Context) (Fingerprint, error) {
	for until := time.Now().Add(machineTime); ; {
		f, err := m.Observer.Machine(ctx)
		if err == nil || !time.Now().Before(until) {
			return f, err
		}
		select {
		case <-time.After(machineTime / 20):
		case <-ctx.Done():
			return f, context.Cause(ctx)
		}
	}
}

// accept says why a checkpoint cannot be restored on this machine, for the user of
// the spec.
func (m *Mover) accept(ctx context.Context, spec proc.Spec, machine Fingerprint, of *Manifest) error {
	var meta archivedMeta
	if err := json.Unmarshal(of.Meta, &meta); err != nil {
		return err
	}
	if err := supervisor.Knows(meta.Record); err != nil {
		return err
	}
	here, err := of.Fingerprint.Here(ctx, m.Observer, machine, spec.As)
	if err != nil {
		return err
	}
	if differ := of.Fingerprint.Compare(here); len(differ) > 0 {
		return fmt.Errorf("this machine differs: %s", strings.Join(differ, "; "))
	}
	return nil
}

// removalTime is for how long a machine that a container has left is given to remove its directories. Tests shorten it.
var removalTime = 10 * time.Second

// awaitRemoval waits until the machine has nothing of the container any more that a checkpoint was made of. Where it ran
// before, its NodeManager removes its directories, whatever is in them by then: mostly at once, but after
// yarn.nodemanager.delete.debug-delay-sec if that is set.
func awaitRemoval(ctx context.Context, launch yarn.Launch, of *Manifest, until time.Time) error {
	var meta archivedMeta
	if err := json.Unmarshal(of.Meta, &meta); err != nil {
		return err
	}
	local, _ := launch.Dirs()
	for _, dir := range local {
		home := filepath.Join(dir, filepath.Base(meta.TaskDir))
		for _, err := os.Lstat(home); !errors.Is(err, fs.ErrNotExist); _, err = os.Lstat(home) {
			if !time.Now().Before(until) {
				return fmt.Errorf("%s is here from before, and the NodeManager may remove it at any time", home)
			}
			select {
			case <-time.After(removalTime / 100):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func (m *Mover) fetch(ctx context.Context, claim *Claim, p Parcel, launch yarn.Launch) (Taken, error) {
	mv := &moving{claim: claim, task: string(p.Task), kept: func() {}}
	var meta archivedMeta
	err := json.Unmarshal(claim.Manifest.Meta, &meta)
	if err == nil {
		mv.store, err = p.open()
	}
	if err == nil {
		mv.fetched, err = claim.Fetch(ctx, Target{Store: mv.store, Task: mv.task, Roots: p.roots(launch), Resources: launch.Resources})
		err = notNow(err)
	}
	if err != nil {
		giveUp := claim.Return
		if errors.Is(err, ErrCorrupt) { // nobody else would fare better
			giveUp = claim.Remove
		}
		return Taken{}, errors.Join(err, mv.undo(), giveUp(context.WithoutCancel(ctx)))
	}
	_, mv.kept = claim.renewing(ctx)
	from := claim.Manifest.Container + " on " + claim.Manifest.By
	return Taken{From: from, TaskDir: meta.TaskDir, Image: mv.fetched.Image, Use: mv.use, End: mv.end}, nil
}

// takeUp is fetch for what an earlier daemon has fetched for the task and used.
func (m *Mover) takeUp(ctx context.Context, at *Archive, used Entry, p Parcel) (Taken, error) {
	var meta archivedMeta
	of, err := at.manifest(ctx, used)
	if err == nil {
		err = json.Unmarshal(of.Meta, &meta)
	}
	im, noImage := p.newest()
	if errors.Is(noImage, proc.ErrNotNow) {
		return Taken{}, noImage
	}
	if err = errors.Join(err, noImage); err != nil {
		return Taken{}, fmt.Errorf("%w: %w", ErrBegun, err)
	}
	end := func(ctx context.Context, failed error) error {
		switch {
		case failed == nil:
			return (&Claim{Manifest: of, a: at, entry: used}).Remove(ctx)
		case errors.Is(failed, proc.ErrState): // it goes on from it, or the next daemon takes it up
			return nil
		}
		return p.forget()
	}
	return Taken{From: of.Container + " on " + of.By, TaskDir: meta.TaskDir, Image: im, Use: func(context.Context) error { return nil }, End: end}, nil
}

// use implements Taken.Use.
func (m *moving) use(ctx context.Context) error {
	m.kept()
	return m.claim.Use(ctx)
}

// end implements Taken.End.
func (m *moving) end(ctx context.Context, failed error) error {
	m.kept()
	switch {
	case failed == nil:
		return m.claim.Remove(ctx)
	case mayBeRestored(failed): // first what counts, if this process is about to end
		return errors.Join(m.claim.Return(ctx), m.undo())
	}
	return errors.Join(m.undo(), m.claim.Remove(ctx))
}

// mayBeRestored tells whether others, or this machine later, may restore a checkpoint for which a restore has failed:
// nobody has looked at it, or the machine was short of something.
func mayBeRestored(failed error) bool {
	return errors.Is(failed, proc.ErrState) || errors.Is(failed, proc.ErrNotNow) || errors.Is(failed, proc.ErrStalled)
}

// undo removes what was fetched.
func (m *moving) undo() error {
	if m.fetched == nil {
		return nil
	}
	return errors.Join(m.fetched.Undo(), m.store.Remove(m.task))
}
