package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"headrace"
)

// Volumes are the directories of a data node on this machine. Its methods may be called
// by several goroutines at once. It holds nothing that must be closed.
type Volumes struct {
	volumes []*volume
}

// Open returns the volumes in directories, absolute and each once, as Configured and
// ParseDirs return them. It looks at none yet: a data node, too, goes on when a disk is
// missing.
func Open(dirs []string) (*Volumes, error) {
	if len(dirs) == 0 {
		return nil, errors.New("no directory of a data node is given")
	}
	v := &Volumes{}
	for i, dir := range dirs {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
			return nil, fmt.Errorf("volume of a data node: %q is no clean absolute path", dir)
		}
		if slices.Contains(dirs[:i], dir) {
			return nil, fmt.Errorf("volume of a data node: %s is given twice", dir)
		}
		v.volumes = append(v.volumes, &volume{dir: dir, line: NewLine(), layouts: map[string]versionFile{}})
	}
	return v, nil
}

// Find finds the replica of a block, by its ID, generation and length, and opens it. The
// caller closes it. Errors are ErrAbsent if no volume has one; ErrNotFinalized or
// ErrChanged if one has another than is wanted; ErrRights and ErrVolume for volumes that
// cannot be looked at. An error may be several of these, but ErrAbsent is alone.
//
// A replica that is being moved from one volume to another at this moment may be missed.
func (v *Volumes) Find(ctx context.Context, b headrace.Block) (*Replica, error) {
	return find(ctx, v, b.ID, func(one *volume) (*Replica, error) { return one.find(b) }, func(r *Replica) { r.Close() })
}

// Data opens the data of the finalized replica of a block, of whatever generation and
// length: for who wants to know how much of it is in memory. The caller closes it. Errors
// are those of Find but for ErrChanged.
func (v *Volumes) Data(ctx context.Context, id headrace.BlockID) (*os.File, error) {
	return find(ctx, v, id, func(one *volume) (*os.File, error) { return one.data(id) }, func(f *os.File) { f.Close() })
}

// find asks one volume after the other until there is an answer.
func find[T any](ctx context.Context, v *Volumes, id headrace.BlockID, look func(*volume) (*T, error), drop func(*T)) (*T, error) {
	if len(id.Pool) > 200 || !pool.MatchString(id.Pool) {
		return nil, fmt.Errorf("%q is not the name of a block pool", id.Pool)
	}
	var errs []error
	for _, one := range v.volumes {
		found, err := Ask(ctx, one.line, func() (*T, error) { return look(one) }, func(late *T) {
			if late != nil {
				drop(late)
			}
		})
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, ctx.Err()
		case err != nil:
			errs = append(errs, one.silent(err))
		case found != nil:
			return found, nil
		}
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("%s: %w", id, ErrAbsent)
	}
	return nil, errors.Join(errs...)
}

// pool matches the name of a block pool, BP-NUMBER-ADDRESS-TIME; none leads elsewhere. It doesn't say how long they may be:
// Go compiles an expression that counts to 200 for half a millisecond, at every start.
var pool = regexp.MustCompile(`^BP-[0-9A-Za-z.:_-]+$`)

// Check looks at each volume and returns what keeps it from being looked at, by
// directory; nothing of volumes that are well.
func (v *Volumes) Check(ctx context.Context) map[string]error {
	problems := map[string]error{}
	for _, one := range v.volumes {
		_, err := Ask(ctx, one.line, func() (struct{}, error) { return struct{}{}, one.check() }, func(struct{}) {})
		if err != nil {
			problems[one.dir] = one.silent(err)
		}
	}
	return problems
}

// check looks at the volume as far as that can be done without a block.
func (v *volume) check() error {
	root, err := v.root()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return v.mounted(root)
}
