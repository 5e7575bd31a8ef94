package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/report"
	"headrace/wire"
)

type warmFlags struct {
	check, evict, wait bool
	all                bool
	budget             cli.Size
	job                string
	ids                []string
	patience           cli.Span
}

func warmVerb(a fileVerbs) *cobra.Command {
	var f warmFlags
	cmd := &cobra.Command{
		Use:   "warm [flags] [PATH...]",
		Short: "Read files into memory and keep them there",
		Long: `Warm asks the daemon to read files into memory before somebody needs them, and to
keep them there. A PATH is a file, a directory with all files below it, or a
pattern. Small requests go first; what is begun is finished first; a task that
waits for data goes before all of it. The daemon never keeps more than its budget
(headrace solo --warm-budget), and drops nothing that is still wanted for
something new: what does not fit is said.

Warm prints the id of the request and what will be done, and returns; with --wait
it returns when everything that fits is in memory, and fails if something is
not. The request lasts, also over a restart of the daemon, until headrace warm
--evict, or until the last task of --job has ended. --evict with paths also drops
the files from memory; with --id they are left to the kernel. Without a PATH the
requests are listed; with --all also those that the daemon makes for waiting tasks.

On a node of a cluster a PATH may be hdfs://CLUSTER/PATH: then nodes that have the
blocks read them, and keep them until --evict, or until the application --job has
ended. headrace cluster jobs lists these.`,
		Example: `  headrace warm data/ --wait
  headrace warm 'logs/2024-*.gz' --budget 4GB --job nightly
  headrace warm
  headrace warm --check data/
  headrace warm --evict data/
  headrace warm --evict --id w3
  headrace warm hdfs://cluster/data/day1 --wait --job application_1700000000000_0042`,
		Args: cli.Takes(0, -1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := inCluster(args)
			if err == nil {
				err = f.validate(args, cluster)
			}
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("budget") && f.budget == 0 {
				return cli.UsageErrorf("--budget 0 would keep nothing; leave it out for as much as the daemon's budget allows")
			}
			if cluster {
				return a.warmInputs(cmd.Context(), &f, args)
			}
			return a.warm(cmd.Context(), &f, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.wait, "wait", "w", false, "wait until everything that fits is in memory")
	flags.BoolVar(&f.check, "check", false, "only tell what is in memory, as headrace cache")
	flags.BoolVar(&f.evict, "evict", false, "end the requests for the files and drop them from memory")
	flags.BoolVarP(&f.all, "all", "a", false, "in the list, also what the daemon keeps for the input of waiting tasks")
	flags.StringArrayVar(&f.ids, "id", nil, "with --wait or --evict, the `ID` of a request in place of a PATH; may be repeated with --evict")
	flags.Var(&f.budget, "budget", "keep at most this much for this request (default: as much as the daemon's budget allows)")
	flags.StringVar(&f.job, "job", "", "keep it until the tasks of this `JOB` have ended")
	patienceFlag(cmd, &f.patience)
	if err := cmd.RegisterFlagCompletionFunc("id", a.complete(a.completeRequests)); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
	return cmd
}

// validate checks what goes together; cluster: the paths are of a file system of the cluster.
func (f *warmFlags) validate(paths []string, cluster bool) error {
	modes := 0
	for _, on := range []bool{f.check, f.evict, f.wait} {
		if on {
			modes++
		}
	}
	switch {
	case modes > 1:
		return cli.UsageErrorf("--check, --evict and --wait exclude each other")
	case (f.check || f.evict) && (f.budget > 0 || f.job != "" && !(f.evict && cluster)): // in a cluster it says whose request ends
		return cli.UsageErrorf("--budget and --job are for a new request, not for --check or --evict")
	case f.all && (modes > 0 || len(paths)+len(f.ids) > 0):
		return cli.UsageErrorf("--all is for the list of requests")
	case len(f.ids) > 0 && len(paths) > 0:
		return cli.UsageErrorf("give either paths or --id")
	case len(f.ids) > 0 && !f.evict && !f.wait:
		return cli.UsageErrorf("--id goes with --evict or --wait")
	case len(f.ids) > 1 && f.wait:
		return cli.UsageErrorf("--wait waits for one request")
	case len(f.ids) > 0 && (f.budget > 0 || f.job != ""):
		return cli.UsageErrorf("--budget and --job are for a new request, not for one with an id")
	case len(paths)+len(f.ids) == 0 && (modes > 0 || f.budget > 0 || f.job != ""):
		return cli.UsageErrorf("headrace warm: the path of a file or directory is missing (see headrace warm --help)")
	}
	return nil
}

func (a fileVerbs) warm(ctx context.Context, f *warmFlags, paths []string) error {
	abs, err := absolutePaths(paths)
	if err != nil {
		return err
	}
	if f.check {
		return a.cache(ctx, abs)
	}
	d, err := a.daemon()
	if err != nil {
		return err
	}
	switch {
	case f.evict:
		return a.evict(ctx, d, &wire.EvictRequest{Paths: abs, Ids: f.ids})
	case len(f.ids) > 0:
		return a.warmWait(ctx, d, f.ids[0], f.patience)
	case len(abs) == 0:
		return a.warmList(ctx, d, f.all)
	}
	return a.warmNew(ctx, d, f, abs)
}

func (a fileVerbs) warmNew(ctx context.Context, d *daemon, f *warmFlags, paths []string) error {
	status, err := d.data.Warm(ctx, &wire.WarmRequest{Paths: paths, Job: f.job, Budget: int64(f.budget)})
	if err != nil {
		return err
	}
	if f.wait {
		if a.Format != cli.FormatJSON {
			if _, err := fmt.Fprintln(a.Out, warmPlan(status)); err != nil {
				return err
			}
		}
		return a.warmWait(ctx, d, status.Id, f.patience)
	}
	if err := a.answer(status, warmPlan(status)); err != nil {
		return err
	}
	return a.warmProblems(status)
}

// warmPlan returns what will be done for a request.
func warmPlan(s *wire.WarmStatus) string {
	text := fmt.Sprintf("%s: %s, %s: ", s.Id, files(s.Files), report.Bytes(s.Bytes))
	switch missing := s.Bytes - s.Resident; {
	case missing <= 0:
		return text + "all of it is in memory already"
	case s.Resident > 0:
		return text + fmt.Sprintf("%s in memory already, %s to read", report.Bytes(s.Resident), report.Bytes(missing))
	default:
		return text + "all of it to read"
	}
}

func files(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// warmWait follows a request until what fits is in memory.
func (a fileVerbs) warmWait(ctx context.Context, d *daemon, id string, patience cli.Span) error {
	bar := a.Bar()
	say := func(format string, args ...any) {
		bar.Interrupt(func() error { a.Say(format, args...); return nil })
	}
	f := &follower{daemon: d, patience: patience, say: say}
	status, err := f.warmed(ctx, id, func(s *wire.WarmStatus) { bar.Set(warmShare(s), warmDoing(s)) })
	bar.Done()
	if ctx.Err() != nil {
		return cli.Exit(cli.ExitInterrupted, fmt.Errorf("warming goes on: wait for it with headrace warm --wait --id %s, end it with headrace warm --evict --id %s", id, id))
	}
	if err != nil {
		return err
	}
	if err := a.answer(status, warmResult(status)); err != nil {
		return err
	}
	return a.warmProblems(status)
}

// warmed returns the last status of a request; each is told of all of them.
func (f *follower) warmed(ctx context.Context, id string, each func(*wire.WarmStatus)) (*wire.WarmStatus, error) {
	var last *wire.WarmStatus
	err := f.keep(ctx, func(alive func()) error {
		stream, err := f.data.WatchWarm(ctx, &wire.WatchWarmRequest{Id: id})
		if err != nil {
			return err
		}
		defer stream.Close()
		last = nil
		for stream.Receive() {
			alive()
			last = stream.Msg()
			each(last)
		}
		if err := stream.Err(); err != nil {
			return err
		}
		if last == nil || !settled(last) {
			return errSevered
		}
		return nil
	})
	return last, err
}

// settled reports whether nothing more happens to a request by itself.
func settled(s *wire.WarmStatus) bool {
	return slices.Contains([]string{"full", "done", "released"}, s.State)
}

func warmShare(s *wire.WarmStatus) float64 {
	want := s.Bytes - s.NotFit
	if want <= 0 {
		return -1
	}
	return float64(want-s.Left) / float64(want)
}

func warmDoing(s *wire.WarmStatus) string {
	want := s.Bytes - s.NotFit
	text := fmt.Sprintf("%s of %s", report.Bytes(want-s.Left), report.Bytes(want))
	switch {
	case s.Current != "":
		text += "  " + s.Current
	case s.State == "queued":
		text += "  waiting for its turn"
	}
	return text
}

func warmResult(s *wire.WarmStatus) string {
	if s.State == "released" {
		return s.Id + ": released"
	}
	text := fmt.Sprintf("%s: %s of %s in memory, %s read", s.Id, report.Bytes(s.Pinned+s.Followed), report.Bytes(s.Bytes), report.Bytes(readFor(s)))
	if s.Followed > 0 {
		text += fmt.Sprintf("; %s was there already and is read again when the kernel drops it", report.Bytes(s.Followed))
	}
	return text
}

// readFor returns what was read from the disk for a request. What was in memory when
// it came is locked by the same reading, and counts as migrated, in whole pages.
func readFor(s *wire.WarmStatus) int64 {
	return min(s.Migrated, max(0, s.Bytes-s.Resident))
}

// warmProblems says what is not as it was asked for; the error has the exit
// code.
func (a fileVerbs) warmProblems(s *wire.WarmStatus) error {
	a.pathProblems(s.Failures, int64(s.Failed))
	if s.NotFit > 0 {
		a.Say("%s: %s do not fit%s", s.Id, report.Bytes(s.NotFit), because(s.NotFitReason))
	}
	if s.State == "released" {
		a.Say("%s: the request has ended: nothing is kept in memory for it any more", s.Id)
	}
	if s.NotFit > 0 || s.Failed > 0 || s.State == "released" {
		return cli.Exit(cli.ExitFailure, nil)
	}
	return nil
}

// pathProblems says what could not be done with the first of n paths.
func (a fileVerbs) pathProblems(first []*wire.PathProblem, n int64) {
	for _, p := range first {
		a.Say("%s: %s", p.Path, p.Reason)
	}
	if more := n - int64(len(first)); more > 0 {
		a.Say("and %s more", files(more))
	}
}

func (a fileVerbs) evict(ctx context.Context, d *daemon, req *wire.EvictRequest) error {
	resp, err := d.data.Evict(ctx, req)
	if err != nil {
		return err
	}
	if err := a.answer(resp, evicted(resp, len(req.Paths) > 0)); err != nil {
		return err
	}
	a.pathProblems(resp.Failures, int64(resp.Failed))
	if resp.Failed > 0 {
		return cli.Exit(cli.ExitFailure, nil)
	}
	return nil
}

// evicted tells what was done; paths: there were any.
func evicted(r *wire.EvictResponse, paths bool) string {
	var parts []string
	if paths {
		dropped := "nothing dropped"
		if r.Files > 0 {
			dropped = fmt.Sprintf("%s of %s dropped", report.Bytes(r.Bytes), files(r.Files))
		}
		parts = append(parts, dropped)
	}
	if r.Requests > 0 {
		parts = append(parts, requests(int64(r.Requests))+" ended")
	}
	if r.Released > 0 {
		parts = append(parts, report.Bytes(r.Released)+" left to the kernel")
	}
	if r.Kept > 0 {
		parts = append(parts, fmt.Sprintf("%s stay in memory because other requests or jobs want them", report.Bytes(r.Kept)))
	}
	return strings.Join(parts, ", ")
}

// internal reports whether the daemon has made a request itself, for the input of
// waiting tasks.
func internal(r *wire.WarmStatus) bool {
	return strings.HasPrefix(r.Id, "stream:") || strings.HasPrefix(r.Id, "task:") || strings.HasPrefix(r.Id, "cluster:")
}

func (a fileVerbs) warmList(ctx context.Context, d *daemon, all bool) error {
	list, err := d.data.ListWarm(ctx, &wire.ListWarmRequest{})
	if err != nil {
		return err
	}
	if !all {
		list.Requests = slices.DeleteFunc(list.Requests, internal)
	}
	if a.Format == cli.FormatJSON {
		return jsonout.Write(a.Out, list)
	}
	return a.Table(requestsTable(list.Requests))
}

func requestsTable(requests []*wire.WarmStatus) *report.Table {
	t := &report.Table{Columns: []report.Column{
		{Title: "id"}, {Title: "user"}, {Title: "job", Flex: true}, {Title: "state"}, {Title: "files", Align: report.Right},
		{Title: "size", Align: report.Right}, {Title: "kept", Align: report.Right}, {Title: "followed", Align: report.Right, Drop: 2}, {Title: "read", Align: report.Right, Drop: 1},
		{Title: "does not fit", Align: report.Right, Drop: 3}, {Title: "failed", Align: report.Right, Drop: 4}, {Title: "paths", Flex: true},
	}}
	for _, r := range requests {
		t.Add(report.Str(r.Id), report.Str(r.User), report.Str(r.Job), report.Str(r.State), report.Str(fmt.Sprint(r.Files)),
			report.Str(report.Bytes(r.Bytes)), report.Str(report.Bytes(r.Pinned)), unlessZero(float64(r.Followed), report.UnitBytes), report.Str(report.Bytes(readFor(r))),
			unlessZero(float64(r.NotFit), report.UnitBytes), unlessZero(float64(r.Failed), report.UnitNone),
			report.Str(strings.Join(r.Paths, " ")))
	}
	return t
}

// completeRequests offers the ids of requests.
func (a fileVerbs) completeRequests(ctx context.Context, d *daemon, _ []string) (ids []cobra.Completion, err error) {
	list, err := d.data.ListWarm(ctx, &wire.ListWarmRequest{})
	for _, r := range list.GetRequests() {
		ids = append(ids, cobra.CompletionWithDesc(r.Id, cli.OneLine(r.State+" "+strings.Join(r.Paths, " "))))
	}
	return ids, err
}
