package names

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/zeebo/xxh3"
	bolt "go.etcd.io/bbolt"

	"headrace/meta"
)

// ErrDamaged: the database does not have what was written to it.
var ErrDamaged = errors.New("the database of the names (meta.db) is damaged; see docs/dfs.md, \"When the names decay\"")

// digestKey is of the sum of all other keys and values but indexKey's, which empty entries move on some nodes only: so the
// sums of all nodes at one index are the same. With it goes the index that it was made at, which an older version leaves
// behind, and a checksum.
var digestKey = []byte("\x00digest")

// sumOf is what a key and its value add to the sum of a state.
func sumOf(key, value []byte) uint64 { return xxh3.HashSeed(value, xxh3.Hash(key)) }

func counted(key []byte) bool { return !bytes.Equal(key, indexKey) && !bytes.Equal(key, digestKey) }

func encodeDigest(index, sum uint64) []byte {
	b := binary.BigEndian.AppendUint64(ofNumber(index), sum)
	return binary.BigEndian.AppendUint64(b, xxh3.Hash(b))
}

// decodeDigest returns the sum of a state at an index, and false when nobody has made one for that index.
func decodeDigest(b []byte, index uint64) (sum uint64, known bool, err error) {
	if b == nil {
		return 0, false, nil
	}
	if len(b) != 24 || xxh3.Hash(b[:16]) != number(b[16:]) || number(b[:8]) > index {
		return 0, false, fmt.Errorf("%w: its sum is none, or of another state", ErrDamaged)
	}
	return number(b[8:16]), number(b[:8]) == index, nil
}

// Sound calls f, which uses a database of this package, and returns ErrDamaged when its pages make no sense: bbolt panics then, or reads where there is nothing.
func Sound(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return f()
}

// count returns the sum of a state. It ends early, with its error, when ctx ends.
func count(ctx context.Context, r meta.Reader) (sum uint64, err error) {
	err = Sound(func() error {
		n := 0
		for k, v := range r.Scan(nil, end) {
			if n++; n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if counted(k) {
				sum += sumOf(k, v)
			}
		}
		return nil
	})
	return sum, err
}

// agrees counts a state, and returns ErrDamaged when it has another sum than what was written to it.
func agrees(ctx context.Context, r meta.Reader, want uint64) error {
	sum, err := count(ctx, r)
	if err == nil && sum != want {
		err = errSum(sum, want)
	}
	return err
}

func errSum(sum, want uint64) error {
	return fmt.Errorf("%w: what is in it adds up to %016x, and what was written to %016x", ErrDamaged, sum, want)
}

// check reads all of the state, and returns its index, or ErrDamaged: then the machine does nothing any more.
func (m *machine) check(ctx context.Context) (index uint64, err error) {
	g, r, done, err := m.look()
	if err != nil {
		return 0, err
	}
	defer done()
	if err = agrees(ctx, r, g.sum); errors.Is(err, ErrDamaged) {
		m.spoil(err)
	}
	return g.index, err
}

// spoil ends all applying, flushing and sending.
func (m *machine) spoil(err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	m.mu.Unlock()
	m.damaged(err)
}

// checked is what a node notes of its database: when all of it was last read and was right, and what was found when it was not.
type checked struct {
	At     time.Time
	Index  uint64
	Damage string `json:",omitempty"`
	// Strays: the damage is that most others have another state, which no reading of this one finds.
	Strays bool `json:",omitempty"`
}

var checkedKey = []byte("checked")

func (s bolted) checked() (c checked, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(nodeBucket).Get(checkedKey); b != nil {
			return json.Unmarshal(b, &c)
		}
		return nil
	})
	return c, err
}

func (s bolted) setChecked(c checked) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return Sound(func() error {
		return s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(nodeBucket).Put(checkedKey, b) })
	})
}

const (
	// checkTime is the time between two readings of the whole state, checkRest for how many times as long as one has taken there is no other.
	checkTime = time.Hour
	checkRest = 100
)

// accept has what is read from now on be what was written.
func (s bolted) accept() error {
	return Sound(func() error {
		return s.db.Update(func(tx *bolt.Tx) error {
			b := current(tx)
			if r, err := decodeRoster(b.Get(viewKey)); err == nil && len(r.Members) > 2 {
				return errors.New("names: damage is accepted by a file system of one or two nodes only: of more, the others have what is right")
			}
			return b.Delete(digestKey)
		})
	})
}

// checkAtStart refuses a database in which damage was found before, unless it is not there any more, as after a wrong read, or is accepted.
func (g *Group) checkAtStart() error {
	last, err := g.store.checked()
	if err != nil {
		return errStore(err)
	}
	g.last.Store(&last)
	if last.Damage == "" {
		return nil
	}
	_, err = g.machine.check(context.Background())
	if last.Strays && err == nil && !g.config.AcceptDamage {
		err = fmt.Errorf("%w (%s)", ErrDamaged, last.Damage)
	}
	if err != nil && !errors.Is(err, errNoState) {
		return g.wayOut(err)
	}
	g.config.Log.Warn("damage of the names that was found before is not there now, or was accepted", "found", last.Damage)
	last.Damage, last.Strays = "", false
	g.last.Store(&last)
	return g.store.setChecked(last)
}

// checkAgain reads all of the state from time to time. What is wrong would else be noticed only by who gets a wrong answer.
func (g *Group) checkAgain() {
	for {
		began := time.Now()
		index, err := g.machine.check(g.ctx)
		took := time.Since(began)
		if err == nil && time.Since(g.last.Load().At) >= checkTime {
			last := checked{At: time.Now(), Index: index}
			g.last.Store(&last)
			err = g.store.setChecked(last)
		}
		if err == nil || errors.Is(err, errNoState) {
			if err := g.forget(err == nil); err != nil {
				g.config.Log.Warn("damaged names that were set aside cannot be deleted", "err", err)
			}
		}
		if errors.Is(err, ErrDamaged) {
			g.fail(err)
			return
		}
		select {
		case <-g.ctx.Done():
			return
		case <-g.restored:
		case <-time.After(max(checkTime, checkRest*took)):
		}
	}
}

// wayOut says what to do about damage.
func (g *Group) wayOut(err error) error {
	whole := "they were never read as a whole"
	if last := g.last.Load(); !last.At.IsZero() {
		whole = fmt.Sprintf("all were read and were right at %s, up to entry %d", last.At.Format(time.RFC3339), last.Index)
	}
	if len(g.View().Members) > 2 {
		return fmt.Errorf("%w; %s. The other nodes go on without this one. Start it again, as a service does by itself: it sets its names aside, and takes those of the others over. "+
			"If that fails, or nobody gives them to it, give it empty directories (--dir, and each --disk) and start it with --join, as a new node, "+
			"then have the old one taken off: headrace dfs remove %s", err, whole, g.self)
	}
	return fmt.Errorf("%w; %s. Put back a copy of --dir and all --disk that was made later, or before and is not too old; without one start once with --accept-damage", err, whole)
}

// noteDamage has the next start refuse, and says what to do.
func (g *Group) noteDamage(err error) error {
	c := *g.last.Load()
	c.Damage, c.Strays = err.Error(), errors.Is(err, ErrStrays)
	if e := errors.Join(g.store.keepView(g.View()), g.store.setChecked(c)); e != nil {
		g.config.Log.Warn("damage cannot be noted, so the next start has to find it again", "err", e)
	}
	return g.wayOut(err)
}
