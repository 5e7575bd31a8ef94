package block

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"headrace/disk"
)

// Scrub reads every closed block once and compares it with its checksums, each disk for
// itself, behind everybody else who wants the disk and at most at that many bytes a second
// for each. What is damaged goes to Config.Damaged. It begins with what the end of the
// machine may have damaged, then goes on where the last pass was when it ended. Where dirs are named, only those disks are read.
func (s *Store) Scrub(ctx context.Context, bytesPerSecond int64, dirs ...string) error {
	return errors.Join(s.each(func(v *volume) error {
		if len(dirs) > 0 && !slices.Contains(dirs, v.dir) {
			return nil
		}
		p := pass{s: s, v: v, rate: bytesPerSecond}
		return p.run(ctx)
	})...)
}

// pass is one over the blocks of a volume.
type pass struct {
	s    *Store
	v    *volume
	lane lane
	rate int64 // bytes a second
}

func (p *pass) run(ctx context.Context) error {
	s, v := p.s, p.v
	if v.err() != nil {
		return nil
	}
	p.lane.enter(s.Turns, v.device, disk.Warming, "looking through blocks")
	defer p.lane.leave()
	for _, r := range p.order() {
		if err := p.read(ctx, r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.scrubbed = 0
	return nil
}

// order lists the closed blocks in the order in which they are read.
func (p *pass) order() (order []*replica) {
	s, v := p.s, p.v
	s.mu.Lock()
	defer s.mu.Unlock()
	files := v.sorted()
	i, found := slices.BinarySearch(files, v.scrubbed)
	if found {
		i++
	}
	for _, id := range slices.Concat(files[i:], files[:i]) {
		for _, r := range v.files[id].regions {
			if r.state == Final {
				order = append(order, r)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b *replica) int { return cmp.Compare(first(a), first(b)) })
	return order
}

func first(r *replica) int {
	if r.suspect {
		return 0
	}
	return 1
}

// read reads a block. That it is damaged is told of elsewhere; the error is that of
// ctx or the disk.
func (p *pass) read(ctx context.Context, r *replica) error {
	s := p.s
	s.mu.Lock()
	b, n, state := Block{r.head.block, r.head.stamp}, r.visible.length, r.state
	cuts := r.cuts
	current := s.blocks[b.ID] == r
	s.mu.Unlock()
	if state != Final || !current {
		return nil
	}
	reader, err := s.open(b, 0, n, &p.lane)
	if err != nil {
		return r.file.v.err() // or it was deleted
	}
	defer reader.Close()
	reader.whole = false // nobody will ask for the next block
	for {
		began := time.Now()
		var part Part
		if part, err = reader.Next(ctx); err != nil {
			break
		}
		if wait := time.Duration(float64(len(part.Data))/float64(p.rate)*1e9) - time.Since(began); wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.file.v.err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, io.EOF) && r.cuts == cuts && r.visible.length == n && r.state == Final {
		r.suspect = false
		r.hurt(false)
	}
	if !r.suspect {
		r.file.v.scrubbed = r.file.id
	}
	return nil
}
