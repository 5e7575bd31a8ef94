package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/node"
	"headrace/report"
	"headrace/wire"
)

// inputsLook is how often it is asked how warming stands.
const inputsLook = 500 * time.Millisecond

// inCluster reports whether paths are URLs of a file system of the cluster, such as
// hdfs://cluster/data.
func inCluster(paths []string) (bool, error) {
	n := 0
	for _, p := range paths {
		if scheme, _, is := strings.Cut(p, "://"); is && !strings.Contains(scheme, "/") {
			n++
		}
	}
	if n > 0 && n < len(paths) {
		return false, cli.UsageErrorf("files of this machine and of the cluster: give one or the other")
	}
	return n > 0, nil
}

// notInCluster says what is missing, if the daemon is in no cluster.
func notInCluster(err error) error {
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return errors.New("this daemon belongs to no cluster: files of hdfs:// are known to headrace node, with a headrace manager --hdfs")
	}
	return err
}

// warmInputs is headrace warm for files of the cluster.
func (a fileVerbs) warmInputs(ctx context.Context, f *warmFlags, paths []string) error {
	if f.check {
		return a.cacheInputs(ctx, paths)
	}
	d, err := a.daemon()
	if err != nil {
		return err
	}
	if f.evict {
		res, err := d.inputs.Cool(ctx, &wire.CoolInputsRequest{Paths: paths, Jobs: f.jobs()})
		if err != nil {
			return notInCluster(err)
		}
		if a.Format == cli.FormatJSON {
			return jsonout.Write(a.Out, res)
		}
		_, err = fmt.Fprintf(a.Out, "%s ended, %s left to the kernel\n", requests(int64(res.Ended)), report.Bytes(res.Released))
		return err
	}
	q := &wire.WarmInputsRequest{Paths: paths, Job: f.job, Budget: int64(f.budget)}
	st, err := d.inputs.Warm(ctx, q)
	if err != nil {
		return notInCluster(err)
	}
	if f.wait {
		if st, err = a.awaitInputs(ctx, d, q, st, f.patience); err != nil {
			return err
		}
	}
	if a.Format == cli.FormatJSON {
		err = jsonout.Write(a.Out, st)
	} else {
		_, err = fmt.Fprintln(a.Out, inputsLine(st))
	}
	if err != nil {
		return err
	}
	a.pathProblems(st.Failures, int64(st.Failed))
	if st.NotFit > 0 {
		a.Say("%s: %s do not fit%s", st.Job, report.Bytes(st.NotFit), because(st.NotFitReason))
	}
	if st.Failed > 0 || st.NotFit > 0 {
		return cli.Exit(cli.ExitFailure, nil)
	}
	return nil
}

func (f *warmFlags) jobs() []string {
	if f.job == "" {
		return nil
	}
	return []string{f.job}
}

func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// awaitInputs follows what was asked for with q until all that fits is in memory. It asks once
// more when the manager was started again since: then that knows nothing of it, or only what
// nodes have told.
func (a fileVerbs) awaitInputs(ctx context.Context, d *daemon, q *wire.WarmInputsRequest, st *wire.InputsStatus, patience cli.Span) (*wire.InputsStatus, error) {
	bar := a.Bar()
	defer bar.Done()
	f := &follower{daemon: d, patience: patience, say: func(format string, args ...any) {
		bar.Interrupt(func() error { a.Say(format, args...); return nil })
	}}
	user := st.User
	q.Job, q.Hold, q.SubmittedMs = st.Job, q.Job == "", st.SubmittedMs
	for !slices.Contains([]string{"full", "done"}, st.State) {
		if want := st.Bytes - st.NotFit; want > 0 {
			bar.Set(float64(want-st.Left)/float64(want), fmt.Sprintf("%s of %s", report.Bytes(want-st.Left), report.Bytes(want)))
		}
		select {
		case <-time.After(inputsLook):
		case <-ctx.Done():
		}
		err := f.keep(ctx, func(func()) (err error) {
			st, err = d.inputNow(ctx, q, user)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil, cli.Exit(cli.ExitInterrupted, fmt.Errorf("warming goes on; headrace warm --evict ends it"))
		case err != nil:
			return nil, err
		case st.State == "ended":
			return nil, fmt.Errorf("%s: the request has ended: nothing is kept in memory for it any more", st.Job)
		}
	}
	return st, nil
}

// inputNow tells how it stands with what a user has asked for with q, which is asked for once
// more of a manager that does not know it.
func (d *daemon) inputNow(ctx context.Context, q *wire.WarmInputsRequest, user string) (*wire.InputsStatus, error) {
	res, err := d.inputs.Inputs(ctx, &wire.InputsRequest{Jobs: []string{q.Job}})
	if err != nil {
		return nil, err
	}
	for _, st := range res.Inputs { // root is told of those of others, too
		if st.User == user && st.State != "adopted" {
			return st, nil
		}
	}
	return d.inputs.Warm(ctx, q)
}

// inputsLine tells how the input of a job stands.
func inputsLine(s *wire.InputsStatus) string {
	text := fmt.Sprintf("%s: %s, %s in %d blocks: %s in memory", s.Job, files(s.Files), report.Bytes(s.Bytes), s.Blocks, report.Bytes(s.Resident+s.Pinned))
	if s.Left > 0 {
		text += fmt.Sprintf(", %s to read", report.Bytes(s.Left))
	}
	return text
}

// cacheInputs is headrace cache for files of the cluster.
func (a fileVerbs) cacheInputs(ctx context.Context, paths []string) error {
	d, err := a.daemon()
	if err != nil {
		return err
	}
	stream, err := d.inputs.CachedInputs(ctx, &wire.CachedInputsRequest{Paths: paths})
	if err != nil {
		return notInCluster(err)
	}
	defer stream.Close()
	problems, shown, all := 0, int64(0), &wire.CachedInput{}
	line := func(f *wire.CachedInput, name string) error {
		in, share := "?", ""
		if f.Resident >= 0 {
			in = report.Bytes(f.Resident)
			if f.Size > 0 {
				share = report.Percent(float64(f.Resident) / float64(f.Size))
			}
		}
		_, err := fmt.Fprintf(a.Out, cacheLine, report.Bytes(f.Size), in, share, report.Bytes(f.Pinned), name)
		return err
	}
	for stream.Receive() {
		for _, p := range stream.Msg().Problems {
			problems++
			a.Say("%s: %s", p.Path, p.Reason)
		}
		for _, f := range stream.Msg().Files {
			if a.Format == cli.FormatJSON {
				if err := jsonout.WriteLine(a.Out, f); err != nil {
					return err
				}
				continue
			}
			if shown == 0 {
				if _, err := fmt.Fprintf(a.Out, cacheLine, "size", "in memory", "", "kept", "file"); err != nil {
					return err
				}
			}
			shown++
			all.Size, all.Resident, all.Pinned = all.Size+f.Size, all.Resident+max(0, f.Resident), all.Pinned+f.Pinned
			if err := line(f, cachedName(f)); err != nil {
				return err
			}
		}
	}
	if err := stream.Err(); err != nil {
		return notInCluster(err)
	}
	if shown > 0 {
		if err := line(all, "all "+files(shown)); err != nil {
			return err
		}
	}
	if problems > 0 {
		return cli.Exit(cli.ExitFailure, nil)
	}
	return nil
}

// cachedName adds to the path where the file is in memory, and for whom it is kept.
func cachedName(f *wire.CachedInput) string {
	var notes []string
	const most = 3
	for i, n := range f.Nodes {
		if i == most {
			notes = append(notes, fmt.Sprintf("%d more", len(f.Nodes)-most))
			break
		}
		notes = append(notes, n.Node+" "+report.Bytes(n.Bytes))
	}
	if len(f.PinnedBy) > 0 {
		notes = append(notes, "for "+strings.Join(f.PinnedBy, ", "))
	}
	if len(notes) == 0 {
		return cli.OneLine(f.Path)
	}
	return cli.OneLine(f.Path + "  (" + strings.Join(notes, "; ") + ")")
}

// inputsTable has a line for each job.
func inputsTable(all []*wire.InputsStatus) *report.Table {
	right := func(title string, drop int) report.Column {
		return report.Column{Title: title, Align: report.Right, Drop: drop}
	}
	t := &report.Table{Columns: []report.Column{
		{Title: "job", Flex: true}, {Title: "user"}, {Title: "state"}, right("files", 3), right("size", 0), right("in memory", 0), right("kept", 0),
		right("to read", 1), right("does not fit", 2), right("failed", 4), right("lead", 1), right("read warm", 1), right("read cold", 1),
	}}
	for _, s := range all {
		t.Add(report.Str(s.Job), report.Str(s.User), report.Str(s.State), report.Str(fmt.Sprint(s.Files)), report.Str(report.Bytes(s.Bytes)),
			report.Str(report.Bytes(s.Resident+s.Pinned)), report.Str(report.Bytes(s.Pinned)), unlessZero(float64(s.Left), report.UnitBytes),
			unlessZero(float64(s.NotFit), report.UnitBytes), unlessZero(float64(s.Failed), report.UnitNone),
			report.Str(report.UnitSeconds.Format(s.Lead)), unlessZero(float64(s.ReadMemory), report.UnitBytes), unlessZero(float64(s.ReadDisk), report.UnitBytes))
	}
	return t
}

func jobsVerb(a clusterVerbs) *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List jobs whose inputs are read into memory ahead",
		Long: `Jobs lists for which jobs, and by whose request, files of HDFS are read into memory:
their size, what of it is in memory and kept there, what is still to be read, what does
not fit, and how long the job was known before it began to read (its lead time). Of what
nodes have for it, it shows what was read while it was in memory (read warm) and before
that (read cold), where the kernel tells that and no other job wants the same blocks.`,
		Example: `  headrace cluster jobs --token-file /etc/headrace/token
  headrace cluster jobs --format json`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := a.token(f.tokenFile)
			if err != nil {
				return err
			}
			client, err := node.NewInputClient(f.manager, token, f.ca)
			if err != nil {
				return cli.UsageErrorf("%w", err)
			}
			call, cancel := context.WithTimeout(cmd.Context(), cli.AnswerTime)
			defer cancel()
			res, err := client.Inputs(call, &wire.InputsRequest{User: "root", Paths: a.Format == cli.FormatJSON})
			switch {
			case err != nil && cmd.Context().Err() == nil:
				return noManager(f.manager, err)
			case err != nil:
				return err
			case a.Format == cli.FormatJSON:
				return jsonout.Write(a.Out, res)
			}
			return a.Table(inputsTable(res.Inputs))
		},
	}
	f.define(cmd)
	return cmd
}
