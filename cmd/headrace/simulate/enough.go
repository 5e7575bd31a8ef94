package simulate

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"headrace/cli"
	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// goal is what a cluster is to be large enough for: the share of the jobs of a band that
// is done within some time.
type goal struct {
	band   string
	share  float64
	within time.Duration
}

var goalForm = regexp.MustCompile(`^\s*(free|middle|production)\s+([0-9.]+)\s*%\s*<\s*(\S+)\s*$`)

func parseGoal(s string) (goal, error) {
	bad := func() (goal, error) {
		return goal{}, cli.UsageErrorf("--nodes-for %q: want a band (free, middle, production), a share and a time, such as 'production 95%% < 10m'", s)
	}
	m := goalForm.FindStringSubmatch(s)
	if m == nil {
		return bad()
	}
	percent, err := strconv.ParseFloat(m[2], 64)
	var within cli.Span
	if err != nil || percent <= 0 || percent > 100 || within.Set(m[3]) != nil || within == 0 {
		return bad()
	}
	percent = math.Ceil(2*percent) / 2 // what is kept of responses goes in such steps: sim.Spread
	return goal{m[1], percent / 100, time.Duration(within)}, nil
}

func (g goal) String() string {
	return fmt.Sprintf("%s %.4g%% < %s", g.band, 100*g.share, report.Duration(g.within))
}

// took returns the time within which the share of the jobs was done, in seconds.
func (g goal) took(r *sim.Result) float64 { return r.Band(g.band).Response.Quantile(g.share) }

func (g goal) met(r *sim.Result) bool { return g.took(r) < g.within.Seconds() }

// A search looks for the least number of nodes that is enough, for one policy on one
// medium.
type search struct {
	goal goal
	try  func(nodes int) (*sim.Result, error)
	// most is a number of nodes from which on more make no difference: one for each task,
	// or fewer, once that is seen.
	most int
	// fewest is on how many nodes all tasks fit, and all gangs together; fewer are not tried.
	fewest int
	tried  map[int]*sim.Result
}

// least returns how many nodes are enough, 0 if no number is. It begins with a guess. More
// nodes need not help each time: what it finds is a number that is enough, next to one
// that is not.
func (s *search) least(guess int) (int, error) {
	s.fewest = max(s.fewest, 1)
	guess = min(max(guess, s.fewest), s.most)
	enough, err := s.enough(guess)
	if err != nil {
		return 0, err
	}
	short, hi := s.fewest-1, guess // short is not enough
	for !enough {
		if hi == s.most {
			return 0, nil
		}
		short, hi = hi, min(2*hi, s.most)
		if enough, err = s.enough(hi); err != nil {
			return 0, err
		}
		if s.same(s.tried[short], s.tried[hi]) {
			s.most = hi
		}
	}
	for hi-short > 1 {
		middle := (short + hi) / 2
		if enough, err = s.enough(middle); err != nil {
			return 0, err
		}
		if enough {
			hi = middle
		} else {
			short = middle
		}
	}
	return hi, nil
}

// same reports whether all ran at once on the fewer nodes already: nobody had to leave, and on twice as many no task was done sooner. The jobs of
// the goal's band alone do not tell: those that still wait may be behind others, which now wait no more.
func (s *search) same(few, many *sim.Result) bool {
	return few.Counts.Preemptions()+many.Counts.Preemptions() == 0 && s.goal.took(few) == s.goal.took(many) &&
		slices.EqualFunc(few.Bands, many.Bands, func(a, b sim.Band) bool { return a.TaskResponse.Mean == b.TaskResponse.Mean })
}

func (s *search) enough(nodes int) (bool, error) {
	r := s.tried[nodes]
	if r == nil {
		var err error
		if r, err = s.try(nodes); err != nil {
			return false, err
		}
		s.tried[nodes] = r
	}
	return s.goal.met(r), nil
}

// say says what was found.
func (s *search) say(run simRun, nodes int) string {
	if nodes == 0 {
		return fmt.Sprintf("%s: no number of nodes is enough for %s: with %s it takes %s", run, s.goal, nodesText(s.most), report.Duration(seconds(s.goal.took(s.tried[s.most]))))
	}
	text := fmt.Sprintf("%s: enough for %s: %s, with %s", run, s.goal, nodesText(nodes), report.Duration(seconds(s.goal.took(s.tried[nodes]))))
	if r := s.tried[nodes-1]; r != nil {
		text += fmt.Sprintf("; not enough: %s, with %s", nodesText(nodes-1), report.Duration(seconds(s.goal.took(r))))
	} else if nodes > 1 && nodes == s.fewest {
		text += "; on fewer not everything fits"
	}
	return text
}

func nodesText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return cli.Grouped(n) + " nodes"
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// enough are the policies that are compared where nodes are sought, and the medium.
var (
	enoughPolicies = []string{string(policy.Kill), string(policy.Cost)}
	enoughMedia    = []string{"ssd"}
)

// fewest returns on how many nodes of run all gangs fit, and all tasks into their queues.
func (s *simulation) fewest(run simRun) (int, error) {
	c, err := s.configure(run)
	if err != nil || c.Capacity == nil && !slices.ContainsFunc(s.workload.Tasks, func(t trace.Task) bool { return t.Gang != 0 }) {
		return 1, err
	}
	fits := func(nodes int) bool {
		c.Nodes = nodes
		large := c.TooLarge(s.workload)
		return !slices.ContainsFunc(s.workload.Tasks, func(t trace.Task) bool { return large(&t) })
	}
	most := len(s.workload.Tasks)
	if !fits(most) {
		return 1, nil // they are too large for any number: the first run says so
	}
	return 1 + sort.Search(most-1, func(i int) bool { return fits(i + 1) }), nil
}

// findNodes looks for the least number of nodes for each run, and returns what was tried.
func (s *simulation) findNodes(ctx context.Context, g goal, guess int) (tried []*sim.Result, found []string, err error) {
	var runs []simRun
	for _, group := range s.groups {
		runs = append(runs, group[0])
	}
	searches, nodes := make([]*search, len(runs)), make([]int, len(runs))
	fewest, err := s.fewest(runs[0])
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	pool, ctx := errgroup.WithContext(ctx)
	pool.SetLimit(s.jobs)
	for i, run := range runs {
		searches[i] = &search{goal: g, most: len(s.workload.Tasks), fewest: fewest, tried: map[int]*sim.Result{}}
		searches[i].try = func(nodes int) (*sim.Result, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			run.nodes = nodes
			s.watch.more()
			r, err := s.one(ctx, run, func(r *sim.Result) {
				mu.Lock()
				defer mu.Unlock()
				tried = append(tried, r)
			})
			if err == nil && r.Band(g.band).Jobs == 0 {
				err = fmt.Errorf("--nodes-for %s: the trace has no jobs of that band", g)
			}
			return r, err
		}
		pool.Go(func() (err error) {
			nodes[i], err = searches[i].least(guess)
			return err
		})
	}
	err = pool.Wait()
	slices.SortStableFunc(tried, func(a, b *sim.Result) int {
		at := func(r *sim.Result) int {
			return slices.IndexFunc(runs, func(run simRun) bool { return run.policy == r.Policy && run.medium == r.Medium })
		}
		if at(a) != at(b) {
			return at(a) - at(b)
		}
		return a.Config.Nodes - b.Config.Nodes
	})
	if err != nil {
		return tried, nil, err
	}
	for i, run := range runs {
		found = append(found, searches[i].say(run, nodes[i]))
	}
	return tried, found, nil
}
