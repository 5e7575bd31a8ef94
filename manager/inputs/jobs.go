package inputs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/warm/master"
	"headrace/wire"
)

// privileged may see and end what everybody has asked for.
const privileged = "root"

// mayEnd reports whether a user may see and end what another one has asked for.
func mayEnd(user, owner string) bool { return user == owner || user == privileged }

// Warm has the blocks of files read into memory.
func (in *Inputs) Warm(ctx context.Context, q *wire.WarmInputsRequest) (*wire.InputsStatus, error) {
	if err := checkUser(q.User); err != nil {
		return nil, err
	}
	if q.Job != "" {
		if err := wire.CheckName("job", q.Job); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	if q.Budget < 0 {
		return nil, invalid("a budget of %d bytes; give a number, or 0 for as much as there is", q.Budget)
	}
	lease, err := leaseOf(q.Lease)
	if err != nil {
		return nil, err
	}
	if err := checkReaders(q); err != nil {
		return nil, err
	}
	f, done, err := in.find(ctx, q.User, q.Paths)
	if err != nil {
		return nil, err
	}
	defer done()
	if f.blocks == 0 {
		if len(f.problems) > 0 {
			return nil, asked(f.problems[0].Path, f.err)
		}
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("%s: there is nothing in it", q.Paths[0]))
	}
	seen, err := survey(ctx, in, q.User, f.files)
	if err != nil {
		return nil, err
	}
	defer seen()
	near(in, q, f)
	now := time.Now()
	name := jobNameOf(q)
	hold, submitted := q.Job == "" || q.Hold, now
	if q.SubmittedMs > 0 {
		submitted = time.UnixMilli(q.SubmittedMs)
	}
	err = migrate(in, master.Job{Files: f.files, Facts: master.Facts{ // its input is all that it has asked for so far and not let go of
		Name: name, Submitted: submitted, Implicit: q.Implicit, Hold: hold, Budget: q.Budget, Lease: lease,
	}})
	if err != nil {
		return nil, coded(err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	now = time.Now()
	in.leases.renew(name, lease, now)
	in.asked[name] = now
	in.paths.add(name, q.Paths)
	st, err := in.master.Status(name, now)
	if err != nil {
		return nil, coded(err)
	}
	m := in.message(&st, now)
	m.Failed += f.failed
	m.Failures = append(f.problems, m.Failures...)
	m.Failures = m.Failures[:min(len(m.Failures), maxProblems)]
	return m, nil
}

// jobNameOf returns what the job of a request is called. Without a job it is called by its paths: who asks for the same again and
// again, as cron does, has it once, also after the manager was started again.
func jobNameOf(q *wire.WarmInputsRequest) master.Name {
	job := q.Job
	if job == "" {
		sum := sha256.Sum256([]byte(strings.Join(unique(q.Paths), "\x00")))
		job = fmt.Sprintf("hold-%x", sum[:8])
	}
	return master.Name{Owner: q.User, Job: headrace.JobID(job)}
}

// unique returns each name once, in their order.
func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// migrate has the master take in a job, and lets others go between.
func migrate(in *Inputs, q master.Job) error {
	m, err := master.NewMigration(q)
	for more := err == nil; more; {
		in.mu.Lock()
		more, err = m.Step(in.master, atOnce, time.Now())
		in.mu.Unlock()
	}
	return err
}

// survey has nodes tell what they have of files in memory: where a block is it is not read again from elsewhere. What was told is known
// until done is called, and of what the master looks after by then also later.
func survey(ctx context.Context, in *Inputs, user string, files []master.File) (done func(), err error) {
	app, d, err := in.ask(user, files)
	if err != nil {
		in.log.Warn("input is read ahead without its being known what of it is in memory; let fewer blocks be followed at a time", "user", user, "err", err)
		return func() {}, nil
	}
	in.awaitNodes(ctx, d, in.cfg.timing.place, true)
	if ctx.Err() != nil {
		in.forget(app)
		return nil, coded(ctx.Err())
	}
	return func() { in.forget(app) }, nil
}

// Inputs lists what was asked for, and lets it last.
func (in *Inputs) Inputs(_ context.Context, q *wire.InputsRequest) (*wire.InputsResponse, error) {
	if err := checkUser(q.User); err != nil {
		return nil, err
	}
	if len(q.Jobs) > maxJobs {
		return nil, invalid("%d jobs; at most %d are allowed: ask about fewer at a time", len(q.Jobs), maxJobs)
	}
	lease, err := leaseOf(q.Lease)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	res := &wire.InputsResponse{}
	jobs, now := setOf(q.Jobs), time.Now()
	for _, st := range in.master.List(now, func(n master.Name) bool {
		return mayEnd(q.User, n.Owner) && (len(q.Jobs) == 0 || jobs[string(n.Job)])
	}) {
		if st.Owner == q.User && jobs[string(st.Job)] {
			in.leases.renew(st.Name, lease, now)
			in.master.Prolong(st.Name, lease)
		}
		m := in.message(&st, now)
		if q.Paths {
			m.Paths = in.paths.of[st.Name]
		}
		res.Inputs = append(res.Inputs, m)
	}
	for _, job := range unique(q.Jobs) {
		name := master.Name{Owner: q.User, Job: headrace.JobID(job)}
		if _, known := in.asked[name]; known {
			in.asked[name] = now
		}
		if in.master.Ended(name) {
			res.Inputs = append(res.Inputs, &wire.InputsStatus{Job: job, User: q.User, State: "ended"})
		}
	}
	return res, nil
}

// Places tells where the blocks of a job's files are kept, or will be: as many at a time as others can wait for.
func (in *Inputs) Places(ctx context.Context, q *wire.PlacesRequest) (*wire.PlacesResponse, error) {
	if err := checkUser(q.User); err != nil {
		return nil, err
	}
	if len(q.Paths) > maxPaths {
		return nil, invalid("%d paths; at most %d are allowed", len(q.Paths), maxPaths)
	}
	end, err := in.places.Begin(ctx, q.User)
	if err != nil {
		return nil, coded(err)
	}
	defer end()
	p := placing{in: in, name: master.Name{Owner: q.User, Job: headrace.JobID(q.Job)}, files: unique(q.Paths)}
	for len(p.files) > 0 {
		if err := p.next(); err != nil {
			return nil, coded(err)
		}
	}
	return &p.answer, nil
}

// placing is a question where blocks are.
type placing struct {
	in     *Inputs
	name   master.Name
	files  []string // of which not all is answered
	answer wire.PlacesResponse
}

// next answers where the next blocks are.
func (q *placing) next() error {
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	for room := atOnce; room > 0 && len(q.files) > 0; {
		f := &wire.FilePlaces{Path: q.files[0]}
		if n := len(q.answer.Files); n > 0 && q.answer.Files[n-1].Path == f.Path { // there was no room for all of it before
			f = q.answer.Files[n-1]
		}
		had := len(f.Sizes)
		places, rest, err := q.in.master.Places(q.name, f.Path, had, room)
		if err != nil {
			return err
		}
		for _, p := range places {
			f.Sizes, f.Hosts = append(f.Sizes, p.Bytes), append(f.Hosts, p.Host)
		}
		if had == 0 && len(places) > 0 {
			q.answer.Files = append(q.answer.Files, f)
		}
		if rest == 0 {
			q.files = q.files[1:]
		}
		room -= 1 + len(places)
	}
	return nil
}

// message shows how a job stands. in.mu is held.
func (in *Inputs) message(st *master.Status, now time.Time) *wire.InputsStatus {
	m := &wire.InputsStatus{
		Job: string(st.Job), User: st.Owner, State: in.stateOf(st, now), SubmittedMs: st.Submitted.UnixMilli(),
		Files: int64(st.Files), Blocks: uint32(st.Blocks), Bytes: st.Bytes, Resident: st.Resident, Pinned: st.Pinned,
		Warmed: st.Warmed, Left: st.Left, NotFit: st.NotFit, NotFitReason: st.NotFitReason,
		Failed: uint32(st.FailedBlocks), Lead: st.Lead.Seconds(), ReadMemory: st.FromMemory, ReadDisk: st.FromDisk,
	}
	for _, f := range st.Failures[:min(len(st.Failures), maxProblems)] {
		path := f.File
		if path == "" {
			path = f.Block.String()
		}
		m.Failures = append(m.Failures, &wire.PathProblem{Path: path, Reason: f.Node + ": " + f.Reason})
	}
	return m
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

func (in *Inputs) stateOf(st *master.Status, now time.Time) string {
	// A manager that has just been started does not know all nodes yet that may have room, and of a large job it looks for room bit by bit.
	early := st.NotFit > 0 && (st.Untried || now.Sub(in.started) < in.cfg.timing.away)
	switch {
	case st.Adopted:
		return "adopted"
	case (st.Left > 0 || early) && st.Warmed == 0:
		return "queued"
	case st.Left > 0, early:
		return "warming"
	case st.NotFit > 0:
		return "full"
	}
	return "done"
}
