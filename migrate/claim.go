package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"headrace/internal/crash"
)

// Want says which entry a claimant looks for.
type Want struct {
	Key string
	// UID must be that of the processes; a checkpoint of another user is never taken.
	UID uint32
	// Claimant tells who it is, such as CONTAINER.NODE; see Reclaim. Other characters
	// than letters, digits, '.', '_' and '-' become '-'; the first 60 are kept.
	Claimant string
	// Accept, unless nil, says why an entry cannot be used here, for example that its
	// fingerprint differs.
	Accept func(*Manifest) error
	// Passed, unless nil, is told of each entry that nobody with this token can use, and why.
	Passed func(id string, why error)
}

// A Claim is an entry that nobody else has, for as long as it is renewed. Its
// methods are not for concurrent use, except Renew.
type Claim struct {
	Manifest *Manifest
	a        *Archive

	mu    sync.Mutex
	entry Entry
}

// renewEvery is how often Fetch renews a claim. Tests shorten it.
var renewEvery = 20 * time.Second

// Claim takes an entry that is ready, the oldest that will do. Of any number of
// claimants one gets it. The error is ErrNone if there is none.
//
// The claimant fetches the entry, renewing the claim meanwhile (Fetch does), calls
// Use before it starts a restore, and in the end Remove, or Return.
func (a *Archive) Claim(ctx context.Context, w Want) (*Claim, error) {
	if err := checkKey(w.Key); err != nil {
		return nil, err
	}
	fail := func(err error) error { return fmt.Errorf("claim a checkpoint in %s: %w", a.place, err) }
	ready, err := a.names(ctx, Ready) // the oldest first: see NewID
	if err != nil {
		return nil, fail(err)
	}
	refused := []error{ErrNone}
	for _, e := range ready {
		if e.Key != w.Key {
			continue
		}
		m, err := a.manifest(ctx, e) // one at a time: it may be large, and hundreds may wait
		switch {
		case err == nil:
			err = w.refuses(m)
		case errors.Is(err, fs.ErrNotExist) && a.gone(ctx, e):
			continue
		case ctx.Err() != nil:
			return nil, fail(err)
		case w.Passed != nil:
			w.Passed(e.ID, err)
		}
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", e.ID, err))
			continue
		}
		claim, err := a.take(ctx, e, m, w.Claimant)
		if err == nil {
			return claim, nil
		}
		if claim != nil { // it cannot tell what it has; nobody is to wait for that until a Sweep
			err = errors.Join(err, claim.Return(context.WithoutCancel(ctx)))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fail(err)
		}
	}
	return nil, fail(errors.Join(refused...))
}

func (w Want) refuses(m *Manifest) error {
	if m.UID != w.UID {
		return fmt.Errorf("it is of user %d, not %d", m.UID, w.UID)
	}
	if w.Accept != nil {
		return w.Accept(m)
	}
	return nil
}

// gone tells an entry that another has taken meanwhile from one without manifest.
func (a *Archive) gone(ctx context.Context, e Entry) bool {
	_, err := a.place.List(ctx, e.dir())
	return errors.Is(err, fs.ErrNotExist)
}

// take claims an entry whose manifest was accepted; without a claim the error is fs.ErrNotExist if another was faster. A claim
// that comes with an error cannot be used.
func (a *Archive) take(ctx context.Context, ready Entry, accepted *Manifest, claimant string) (*Claim, error) {
	// Before it is claimed, so that no Sweep finds it old.
	if err := a.place.Touch(ctx, path.Join(ready.dir(), manifestName)); err != nil {
		return nil, err
	}
	crash.Here("archive.before-claim")
	e := Entry{State: Claimed, Key: ready.Key, ID: ready.ID, Claimant: plainClaimant(claimant)}
	e.name = strings.Join([]string{e.Key, e.ID, randomHex(8), e.Claimant}, ".")
	if err := a.place.Rename(ctx, ready.dir(), e.dir()); err != nil {
		return nil, err
	}
	crash.Here("archive.claimed")
	claim := &Claim{Manifest: accepted, a: a, entry: e}
	// What was accepted must be what was claimed.
	m, err := a.manifest(ctx, e)
	if err == nil && (m.Made != accepted.Made || m.Size != accepted.Size || len(m.Files) != len(accepted.Files)) {
		err = fmt.Errorf("%w: it changed while it was claimed", ErrForged)
	}
	return claim, err
}

func plainClaimant(s string) string {
	plain := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, s)
	if plain == "" {
		return "-"
	}
	return plain[:min(len(plain), 60)]
}

// Entry tells where the entry is now.
func (c *Claim) Entry() Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry
}

func (c *Claim) fail(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrLost
	}
	return fmt.Errorf("%s archived checkpoint %s in %s: %w", what, c.Manifest.ID, c.a.place, err)
}

// Renew keeps the claim. A claim that was not renewed for the time that Sweep is
// given may be somebody else's; then the error is ErrLost.
func (c *Claim) Renew(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.a.place.Touch(ctx, path.Join(c.entry.dir(), manifestName)); err != nil {
		return c.fail("renew the claim on", err)
	}
	return nil
}

// renewing renews the claim until stop is called, whatever is waited for meanwhile: the disks to which it
// is fetched may take longer to sync than a claim lasts. What it returns ends when the claim is lost.
func (c *Claim) renewing(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	ended, due := make(chan struct{}), time.NewTicker(renewEvery)
	go func() {
		defer close(ended)
		defer due.Stop()
		for {
			select {
			case <-due.C:
			case <-held.Done():
				return
			}
			if err := c.Renew(held); errors.Is(err, ErrLost) { // what else it is may pass
				cancel(err)
			}
		}
	}()
	return held, func() {
		cancel(nil)
		<-ended
	}
}

// Use takes the entry for good, and must have succeeded before a restore is begun:
// from then on nobody else will ever get the entry, whatever becomes of the claimant.
// When the error is ErrLost, nothing of it may be restored; with any other error it is
// open whether the entry is used, so that nothing may be restored either.
func (c *Claim) Use(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	crash.Here("archive.before-use")
	used := c.entry
	used.State = Used
	if err := c.a.place.Touch(ctx, path.Join(c.entry.dir(), manifestName)); err != nil {
		return c.fail("use", err)
	}
	if err := c.a.place.Rename(ctx, c.entry.dir(), used.dir()); err != nil {
		return c.fail("use", err)
	}
	c.entry = used
	crash.Here("archive.used")
	return nil
}

// Return offers the entry to others again, for example because its restore was
// refused here. After Use only who is certain that no process of it has run may
// call it.
func (c *Claim) Return(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.a.offer(ctx, c.entry)
	if errors.Is(err, fs.ErrExist) {
		err = ErrLost // a Sweep was faster
	}
	if err != nil {
		return c.fail("return", err)
	}
	return nil
}

// offer makes an entry ready.
func (a *Archive) offer(ctx context.Context, e Entry) error {
	ready := Entry{State: Ready, name: e.Key + "." + e.ID}
	// The place forbids that a name is used twice, so that a lost answer can be told
	// from a lost claim; here neither matters, since nobody goes on with the entry.
	return a.place.Rename(ctx, e.dir(), ready.dir())
}

// Reclaim serves a claimant whose process has died and was started again: what it had
// claimed is offered again at once, instead of when the claim has become old; these ids it returns. It tells
// which entries it had begun to use; of these it may have run something. The name
// of the claimant must never be another's.
func (a *Archive) Reclaim(ctx context.Context, claimant string) (offered []string, used []Entry, err error) {
	fail := func(err error) ([]string, []Entry, error) {
		return nil, nil, fmt.Errorf("claim again in %s: %w", a.place, err)
	}
	for _, st := range []State{Claimed, Used} {
		list, err := a.names(ctx, st)
		if err != nil {
			return fail(err)
		}
		for _, e := range list {
			switch {
			case e.Claimant != plainClaimant(claimant):
			case st == Used:
				used = append(used, e)
			default:
				if err := a.offer(ctx, e); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
					return fail(err)
				}
				offered = append(offered, e.ID)
			}
		}
	}
	return offered, used, nil
}

// ReadyKeys returns the keys of the entries that can be claimed.
func (a *Archive) ReadyKeys(ctx context.Context) (map[string]bool, error) {
	list, err := a.names(ctx, Ready)
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", a.place, err)
	}
	keys := map[string]bool{}
	for _, e := range list {
		keys[e.Key] = true
	}
	return keys, nil
}

// Remove removes the entry: it was restored, or is of no use.
func (c *Claim) Remove(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.a.discard(ctx, c.entry); err != nil {
		return c.fail("remove", err)
	}
	return nil
}
