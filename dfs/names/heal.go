package names

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"

	"headrace/internal/vfs"
	"headrace/quorum"
)

// Ill returns what a node knows of the others when the names in its database are damaged, or other ones than most others have, and the others can go on
// without it and give it theirs; else nil. With that comes its replica, of which the log in dir says which it is; aside: it was set aside already, so that what was found
// holds, though it may have been a wrong read and all be right now. Nobody may use either meanwhile.
func Ill(db *bolt.DB, dir string, aside bool, log *slog.Logger) (others *View, lost quorum.Replica, err error) {
	s := bolted{db}
	last, err := s.checked()
	if err != nil {
		return nil, 0, errStore(err)
	}
	held, err := s.seat()
	if err != nil || held.Replica == 0 || !held.Made || held.Leaving {
		return nil, 0, err
	}
	var m *machine
	err = Sound(func() (err error) {
		m, err = newMachine(s, Understands(), log)
		return err
	})
	if err == nil && last.Damage != "" && !last.Strays {
		_, err = m.check(context.Background())
	}
	if ill := errors.Is(err, ErrDamaged) || last.Strays || aside; !ill {
		return nil, 0, nil // what else is wrong is told by who opens it
	}
	// What it knew when the damage was found comes from memory.
	if others, err = s.keptView(); others == nil || err != nil || last.Damage == "" {
		if m == nil || m.agreed() == nil {
			return nil, 0, nil
		}
		others = m.agreed()
	}
	left, err := quorum.Look(vfs.OS{}, dir, group)
	if err == nil && left.Replica != held.Replica { // it would take part again with another number, and what it has forgotten
		err = fmt.Errorf("%w: its replica is %x, and that of the log %x", ErrDamaged, held.Replica, left.Replica)
	}
	if err != nil || left.Voters < leastVoters {
		return nil, 0, err
	}
	return others, left.Replica, nil
}

// leastVoters is how many have to vote, that one of them may be set aside: the others are more than half of them.
const leastVoters = 3

// Renew fills a new database in the place of a damaged one, of a node that never again has the replica that is lost: it follows until it is given another one. Of what
// the node knows of itself all is taken over.
func Renew(tx *bolt.Tx, from *bolt.DB, others *View, lost quorum.Replica) error {
	node, err := tx.CreateBucketIfNotExists(nodeBucket)
	if err != nil {
		return err
	}
	own := [][]byte{currentKey, seatKey, keptKey, checkedKey} // of what was there
	err = Sound(func() error {
		return from.View(func(old *bolt.Tx) error {
			return old.Bucket(nodeBucket).ForEach(func(k, v []byte) error {
				if slices.ContainsFunc(own, func(o []byte) bool { return bytes.Equal(o, k) }) {
					return nil
				}
				return node.Put(bytes.Clone(k), bytes.Clone(v))
			})
		})
	})
	if err != nil {
		return err
	}
	_, err = State(tx)
	return errors.Join(err, Follow(tx, others), putSeat(tx, seat{Last: lost}))
}

// forget removes what was set aside when this node has other names, which are as they were written, or is not to have any. What is there of a replica is
// not needed then: its seat was taken away by others, who had all that it had acknowledged.
func (g *Group) forget(whole bool) error {
	aside := g.config.Aside
	if _, err := os.Stat(aside); aside == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	v := g.View()
	if mine := v.Seats[g.self]; mine == 0 && slices.Contains(wanted(v), g.self) || mine != 0 && !whole {
		return nil
	}
	if a := g.machine.agreed(); whole && (a == nil || a.Seats[g.self] == 0) {
		return nil
	}
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	g.config.Log.Warn("this node has the names again; the damaged ones are deleted", "dir", aside)
	return nil
}
