package inputs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/warm/master"
	"headrace/wire"
)

// Cool ends what was asked for.
func (in *Inputs) Cool(ctx context.Context, q *wire.CoolInputsRequest) (*wire.CoolInputsResponse, error) {
	if err := checkUser(q.User); err != nil {
		return nil, err
	}
	if len(q.Jobs)+len(q.Paths) == 0 {
		return nil, invalid("name the jobs or the paths whose files are not to be kept any more")
	}
	jobs, paths := setOf(q.Jobs), setOf(q.Paths)
	c := cooler{in, q.User, jobs}
	blocks, lookUp := c.blocks(ctx, q.Paths)
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Now()
	res := &wire.CoolInputsResponse{}
	for _, st := range c.list(now) {
		named := jobs[string(st.Job)]
		asked := st.Hold && slices.ContainsFunc(in.paths.of[st.Name], func(p string) bool { return paths[p] })
		if !named && !asked && !(in.paths.unknown(&st) && in.master.Within(st.Name, blocks)) {
			continue
		}
		if _, err := in.master.Evict(st.Name, now); err == nil {
			in.paths.forget(st.Name)
			res.Ended++
			res.Released += st.Pinned
		}
	}
	if res.Ended == 0 {
		return nil, c.nothing(lookUp, now)
	}
	return res, nil
}

// cooler ends what a user has asked for.
type cooler struct {
	in    *Inputs
	user  string
	named map[string]bool // jobs that end whatever their paths are
}

// list tells what the user may end. in.mu is held.
func (c cooler) list(now time.Time) []master.Status {
	return c.in.master.List(now, func(n master.Name) bool { return mayEnd(c.user, n.Owner) })
}

// unknown lists what was asked for without a job with paths that are not known, and is not named. in.mu is held.
func (c cooler) unknown(now time.Time) (names []string) {
	for _, st := range c.list(now) {
		if c.in.paths.unknown(&st) && !c.named[string(st.Job)] {
			names = append(names, string(st.Job))
		}
	}
	return names
}

// blocks returns those that paths have, if there is something whose own paths are not known. With an error some are missing.
func (c cooler) blocks(ctx context.Context, paths []string) (map[headrace.BlockID]bool, error) {
	c.in.mu.Lock()
	none := len(paths) == 0 || len(c.unknown(time.Now())) == 0
	c.in.mu.Unlock()
	if none {
		return nil, nil
	}
	f, done, err := c.in.find(ctx, c.user, paths)
	if err != nil {
		return nil, err
	}
	defer done()
	blocks := map[headrace.BlockID]bool{}
	for _, file := range f.files {
		for i := range file.Blocks {
			blocks[file.Blocks[i].ID] = true
		}
	}
	if len(f.problems) > 0 {
		err = asked(f.problems[0].Path, f.err)
	}
	return blocks, err
}

// nothing says that nothing was found to be ended, and what else there is. in.mu is held.
func (c cooler) nothing(lookUp error, now time.Time) error {
	code, text := connect.CodeNotFound, "nothing of yours is kept for that; headrace cluster jobs lists what is"
	if err, is := errors.AsType[*connect.Error](lookUp); is {
		code, text = err.Code(), err.Message()
	}
	if names := c.unknown(now); len(names) > 0 {
		text += fmt.Sprintf("; the paths of %s are not known, since the manager was started again: headrace warm --evict --job NAME PATH ends one",
			strings.Join(names[:min(len(names), maxProblems)], ", "))
	}
	return connect.NewError(code, errors.New(text))
}
