package replica

import (
	"context"
	"errors"
	"fmt"
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
		v.volumes = append(v.volumes, &volume{dir: dir, line: newLine(patience), layouts: map[string]versionFile{}})
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
	if !pool.MatchString(b.ID.Pool) {
		return nil, fmt.Errorf("%q is not the name of a block pool", b.ID.Pool)
	}
	var errs []error
	for _, one := range v.volumes {
		r, err := ask(ctx, one.line, func() (*Replica, error) { return one.find(b) }, func(r *Replica) {
			if r != nil {
				r.Close()
			}
		})
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, ctx.Err()
		case err != nil:
			errs = append(errs, one.silent(err))
		case r != nil:
			return r, nil
		}
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("%s: %w", b.ID, ErrAbsent)
	}
	return nil, errors.Join(errs...)
}

// pool matches the name of a block pool, BP-NUMBER-ADDRESS-TIME; none leads elsewhere.
var pool = regexp.MustCompile(`^BP-[0-9A-Za-z.:_-]{1,200}$`)

// Check looks at each volume and returns what keeps it from being looked at, by
// directory; nothing of volumes that are well.
func (v *Volumes) Check(ctx context.Context) map[string]error {
	problems := map[string]error{}
	for _, one := range v.volumes {
		_, err := ask(ctx, one.line, func() (struct{}, error) { return struct{}{}, one.check() }, func(struct{}) {})
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
