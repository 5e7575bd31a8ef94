package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/cmd/headrace/screen"
	"headrace/disk"
	"headrace/report"
	"headrace/wire"
)

func disksVerb(a fileVerbs) *cobra.Command {
	every := cli.Span(time.Second)
	var samples count
	var follow bool
	cmd := &cobra.Command{
		Use:   "disks",
		Short: "Tell how the disks are used, and who reads",
		Long: `Disks measures for --interval and shows for each disk what is read and written
per second, how many seeks 100 MB of reading cost (reads that did not begin where
the last one had ended; – where less than 4 MB was read), and how that was
measured. Below are the daemon's own readers, streams and warming, with what they
have read and how long they have waited for their turn, and which disks do not
answer.

With --follow it goes on until Ctrl-C, on a terminal in place; with --count it
shows that many intervals, with --format json an object on a line for each.`,
		Example: `  headrace disks
  headrace disks --interval 5s --follow
  headrace disks --count 10 --format json | jq '.disks[].read'`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every <= 0 {
				return cli.UsageErrorf("--interval 0s: give a time to measure over, such as 1s")
			}
			if follow && cmd.Flags().Changed("count") {
				return cli.UsageErrorf("--follow and --count exclude each other")
			}
			left := int(samples.number())
			if follow {
				left = -1
			}
			return a.disks(cmd.Context(), every, left)
		},
	}
	flags := cmd.Flags()
	flags.Var(&every, "interval", "the time that is measured over")
	flags.Var(&samples, "count", "how many intervals to show")
	flags.BoolVarP(&follow, "follow", "f", false, "go on until Ctrl-C")
	return cmd
}

// disks shows samples; a negative number has no end.
func (a fileVerbs) disks(ctx context.Context, every cli.Span, left int) error {
	d, err := a.daemon()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := d.data.Disks(ctx, &wire.DisksRequest{Interval: every.Seconds()})
	if err != nil {
		return err
	}
	defer stream.Close()
	show, end := a.disksShow(left)
	defer end()
	for stream.Receive() {
		if err := show(stream.Msg()); err != nil {
			return err
		}
		if left--; left == 0 {
			return nil
		}
	}
	if ctx.Err() != nil && left < 0 {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := stream.Err(); err != nil && (!severed(err) || errors.As(err, new(*wire.NoDaemonError))) {
		return err
	}
	return &wire.NoDaemonError{Socket: d.socket, Err: errSevered}
}

// disksShow returns how samples are shown here, and what ends it.
func (a fileVerbs) disksShow(left int) (show func(*wire.DisksSample) error, end func()) {
	if a.Format == cli.FormatJSON {
		if left == 1 {
			return func(s *wire.DisksSample) error { return jsonout.Write(a.Out, s) }, func() {}
		}
		return func(s *wire.DisksSample) error { return jsonout.WriteLine(a.Out, s) }, func() {}
	}
	if _, is := cli.AsTerminal(a.Out); is && left < 0 {
		p := screen.New(a.Out, false, nil)
		return func(s *wire.DisksSample) error {
			var frame bytes.Buffer
			if err := writeDisks(&frame, s, cli.TerminalOf(a.Out)); err != nil {
				return err
			}
			return p.Paint(frame.String())
		}, p.Close
	}
	first := true
	return func(s *wire.DisksSample) error {
		if !first {
			if _, err := io.WriteString(a.Out, "\n"); err != nil {
				return err
			}
		}
		first = false
		return writeDisks(a.Out, s, cli.TerminalOf(a.Out))
	}, func() {}
}

// enoughRead is how much must be read before seeks per 100 MB mean something: a
// few small reads of something else would be hundreds.
const enoughRead = 4e6

func writeDisks(w io.Writer, s *wire.DisksSample, term report.Terminal) error {
	if err := disksTable(s).WriteTerminal(w, term); err != nil {
		return err
	}
	if readers := readersTable(s.Disks); readers != nil {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := readers.WriteTerminal(w, term); err != nil {
			return err
		}
	}
	var hangs []*wire.DiskHang
	for _, d := range s.Disks {
		if d.Hang != nil {
			hangs = append(hangs, d.Hang)
		}
	}
	return writeHangs(w, hangs)
}

func disksTable(s *wire.DisksSample) *report.Table {
	t := &report.Table{Columns: []report.Column{
		{Title: "disk"}, {Title: "mount", Flex: true}, {Title: "type"}, {Title: "read", Align: report.Right},
		{Title: "written", Align: report.Right}, {Title: "requests", Align: report.Right},
		{Title: "seeks/100 MB", Align: report.Right}, {Title: "measured by", Flex: true},
	}}
	for _, d := range s.Disks {
		const unknown = "–"
		read, written := report.UnitBytesPerSecond.Format(d.Read), report.UnitBytesPerSecond.Format(d.Write)
		requests, seeks := report.UnitNone.Format(d.Requests)+"/s", unknown
		if d.Seeks >= 0 && d.Read*s.Interval >= enoughRead {
			seeks = report.UnitNone.Format(d.Seeks)
		}
		method := d.Method
		switch {
		case method == "":
			read, written, requests = unknown, unknown, unknown
			method = "nothing: " + d.MethodWhy
		case d.MethodWhy != "":
			method += " (" + d.MethodWhy + ")"
		}
		t.Add(report.Str(d.Name), report.Str(d.Mount), report.Str(d.FsType), report.Str(read), report.Str(written), report.Str(requests),
			report.Str(seeks), report.Str(method))
	}
	return t
}

// readersTable returns nil when the daemon has read nothing.
func readersTable(disks []*wire.Disk) *report.Table {
	t := &report.Table{Columns: []report.Column{
		{Title: "disk"}, {Title: "reader", Flex: true}, {Title: "class"}, {Title: "read so far", Align: report.Right},
		{Title: "waited", Align: report.Right}, {Title: "now"},
	}}
	for _, d := range disks {
		for _, r := range d.Readers {
			now := ""
			switch {
			case r.Reading && r.Hangs > 0:
				now = "hangs for " + report.Seconds(r.Hangs)
			case r.Reading && r.Class == disk.Dump.String():
				now = "writes"
			case r.Reading:
				now = "reads"
			case r.Waiting && d.Hang.GetSilent():
				now = "waits until it answers"
			case r.Waiting:
				now = "waits for its turn"
			}
			t.Add(report.Str(d.Name), report.Str(cmp.Or(r.Name, "–")), report.Str(r.Class), report.Str(report.Bytes(r.Bytes)),
				report.Str(report.Seconds(r.Waited)), report.Str(now))
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return t
}
