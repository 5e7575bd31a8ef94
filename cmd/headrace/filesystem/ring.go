package filesystem

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"headrace/block"
	"headrace/cli"
	"headrace/dfs/gateway"
	"headrace/report"
	"headrace/wire"
)

// ring asks the nodes of a file system about themselves.
func (a verbs) ring(ctx context.Context, fs string) (r *wire.RingResponse, err error) {
	r = new(wire.RingResponse)
	return r, a.callRing(ctx, fs, "Ring", &wire.RingRequest{}, r)
}

// callRing has the first node of a file system that can be reached answer a call about nodes.
func (a verbs) callRing(ctx context.Context, fs, method string, request, answer proto.Message) error {
	return a.reachFor(ctx, fs, gateway.RingProtocol, func(c asker) error { return c.Call(c.ctx, method, request, answer) })
}

func ringVerb(a verbs) *cobra.Command {
	var fs string
	cmd := &cobra.Command{
		Use:   "ring",
		Short: "Tell which nodes there are, how they stand, and what is being moved",
		Long: `Ring lists the nodes of the file system in the order of the ring, on which each has
its copies with its neighbours. A node owns a part of all segments, holds the copies
of more, and is to get some yet while nodes come or go. Down is a node that was not
heard for some seconds: nothing is moved for it. Out is one that is not expected
back: others have taken over.

On its standard error it names disks that nodes do not use, directories that they cannot
write any more, and nodes that have no room for all that is to be there, with what can
be done.`,
		Example: `  headrace dfs ring
  headrace dfs ring --format json | jq -r '.nodes[] | select(.state != "up").name'`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.ring(cmd.Context(), fs)
			if err != nil {
				return err
			}
			return a.showRing(r)
		},
	}
	fsFlag(cmd, &fs)
	return cmd
}

// Ring is what headrace dfs ring tells.
type Ring struct {
	Epoch    uint64 `json:"epoch"`
	Term     uint64 `json:"term"`
	Leader   string `json:"leader"`
	Replicas uint32 `json:"replicas"`
	Segments uint32 `json:"segments"`
	Missing  uint32 `json:"missing"`
	Moves    uint32 `json:"moves"`
	// Version is the one in force.
	Version uint32 `json:"version"`
	Nodes   []Node `json:"nodes"`
}

// Node is a node in that.
type Node struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Leaving   bool   `json:"leaving"`
	Leads     bool   `json:"leads"`
	Votes     bool   `json:"votes"`
	Differs   bool   `json:"differs"` // its names are others than those of the node that leads
	Version   uint32 `json:"version"` // what it understands; 0: it has not said so yet
	Address   string `json:"address"`
	Peer      string `json:"peer"`
	Rack      string `json:"rack"`
	Owns      uint32 `json:"owns"`
	Holds     uint32 `json:"holds"`
	Fills     uint32 `json:"fills"`
	Capacity  uint64 `json:"capacity"`
	Used      uint64 `json:"used"`
	Remaining uint64 `json:"remaining"`
	Blocks    uint64 `json:"blocks"`
	// SilentS is for how long it was not heard, in seconds; below 0: it was not heard at all.
	SilentS float64 `json:"silentS"`
	// Gaps is how many parts of its files of blocks could not be read when it was started, SomeGaps the first of them.
	Gaps     uint64 `json:"gaps"`
	SomeGaps []Gap  `json:"someGaps"`
	// Failed are its disks that are out of use.
	Failed []FailedDisk `json:"failed"`
	// Homeless is how many blocks are to be there for which it has no room.
	Homeless uint64 `json:"homeless"`
	// Unwritable are its directories that cannot be written any more.
	Unwritable []Directory `json:"unwritable"`
}

// Directory is one that a node cannot write.
type Directory struct {
	Dir string `json:"dir"`
	// Cause is what that means, the reason, and what to do.
	Cause string `json:"cause"`
}

// FailedDisk is a disk that a node does not use.
type FailedDisk struct {
	Disk  string `json:"disk"`
	Cause string `json:"cause"`
}

// Gap is a part of the blocks of a file on a disk, in bytes.
type Gap struct {
	Disk string `json:"disk"`
	// File is the number of the file.
	File uint64 `json:"file"`
	// Path is that of the file, empty where there is none any more, or who asks may not do all.
	Path string `json:"path"`
	From int64  `json:"from"`
	// To is 2^63-1 where no block was found behind it.
	To    int64  `json:"to"`
	Cause string `json:"cause"`
}

func ringOf(w *wire.RingResponse) Ring {
	r := Ring{w.Epoch, w.Term, w.Leader, w.Replicas, w.Segments, w.Missing, w.Moves, max(1, w.Version), []Node{}}
	for _, n := range w.Nodes {
		m, room := n.GetMember(), n.GetRoom()
		r.Nodes = append(r.Nodes, Node{m.GetName(), n.State, n.Leaving, n.Leads, n.Votes, n.Differs, n.Version, hostPort(m.GetHost(), m.GetRpcPort()), hostPort(m.GetHost(), m.GetPeerPort()),
			m.GetRack(), n.Owns, n.Holds, n.Fills, room.GetCapacity(), room.GetUsed(), room.GetRemaining(), room.GetBlocks(), n.Silent, room.GetGaps(), gapsOf(room.GetSomeGaps()), failedOf(room.GetFailed()), room.GetHomeless(), unwritableOf(room.GetUnwritable())})
	}
	return r
}

func gapsOf(all []*wire.RingGap) []Gap {
	gaps := []Gap{}
	for _, g := range all {
		gaps = append(gaps, Gap{g.GetDir(), g.GetFile(), g.GetPath(), g.GetFrom(), g.GetTo(), g.GetCause()})
	}
	return gaps
}

func failedOf(all []*wire.RingDisk) []FailedDisk {
	disks := []FailedDisk{}
	for _, d := range all {
		disks = append(disks, FailedDisk{d.GetDir(), d.GetCause()})
	}
	return disks
}

func unwritableOf(all []*wire.RingDisk) []Directory {
	dirs := []Directory{}
	for _, d := range all {
		dirs = append(dirs, Directory{d.GetDir(), d.GetCause()})
	}
	return dirs
}

// called is a node, for people.
func (n Node) called() string { return fmt.Sprintf("node %s (%s)", shortName(n.Name), n.Address) }

// failed are lines for people about disks that are out of use.
func (r Ring) failed() (lines []string) {
	for _, n := range r.Nodes {
		for _, d := range n.Failed {
			dir := cli.OneLine(d.Disk)
			lines = append(lines, fmt.Sprintf("%s, disk %s: it is out of use (%s); what it had is made anew from other copies, if there are any; headrace dfs fsck names the files of which there are none. Mount it again, or put another in its place, and start the node once with --new-disk %[2]s",
				n.called(), dir, cli.OneLine(d.Cause)))
		}
	}
	return lines
}

// unwritable are lines for people about directories that nodes cannot write any more.
func (r Ring) unwritable() (lines []string) {
	for _, n := range r.Nodes {
		for _, d := range n.Unwritable {
			lines = append(lines, fmt.Sprintf("%s, directory %s: it cannot be written any more: %s", n.called(), cli.OneLine(d.Dir), cli.OneLine(d.Cause)))
		}
	}
	return lines
}

// homeless are lines for people about nodes that have no room for what is to be there.
func (r Ring) homeless() (lines []string) {
	for _, n := range r.Nodes {
		if n.Homeless > 0 {
			lines = append(lines, fmt.Sprintf("%s: no room for %d blocks that are to be there, with %s free: they have fewer copies. Give it a disk (--disk, or --new-disk in the place of one that has failed), or add a node, or, where there are more nodes than copies, have others take what it has: headrace dfs drain %s",
				n.called(), n.Homeless, report.Bytes(int64(n.Remaining)), n.Address))
		}
	}
	return lines
}

// gaps are lines for people about what could not be read of disks: of files below a path, and of those that are not known.
func (r Ring) gaps(below string) (lines []string) {
	below = strings.TrimSuffix(below, "/") + "/"
	for _, n := range r.Nodes {
		who := n.called()
		for _, g := range n.SomeGaps {
			gap := block.Gap{File: g.File, From: g.From, To: g.To}
			if g.Path != "" && !strings.HasPrefix(g.Path+"/", below) {
				continue
			}
			of := "a file that is not there any more"
			if g.Path != "" {
				of = cli.OneLine(g.Path)
			} else if gap.Directory() {
				of = "about one file of 256"
			}
			lines = append(lines, fmt.Sprintf("%s, disk %s: the %v could not be read at its start (%s); that is %s", who, g.Disk, gap, g.Cause, of))
		}
		if told := uint64(len(n.SomeGaps)); n.Gaps > told {
			lines = append(lines, fmt.Sprintf("%s: and %d parts more", who, n.Gaps-told))
		}
	}
	return lines
}

func hostPort(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// shortName is as much of a node's name as tells it from others, mostly.
func shortName(name string) string { return name[:min(8, len(name))] }

// share is a part of the ring in percent. Little is not nothing: a node that leaves is still needed for it.
func share(n, of uint32) string {
	percent := fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, of)))
	if n > 0 && percent == "0.0 %" {
		return "< 0.1 %"
	}
	return percent
}

func (a verbs) showRing(w *wire.RingResponse) error {
	r := ringOf(w)
	if a.Format == cli.FormatJSON {
		return cli.WriteJSON(a.Out, r)
	}
	title := fmt.Sprintf("epoch %d, %d copies, version %d in force", r.Epoch, min(int(r.Replicas), len(r.Nodes)), r.Version)
	if r.Moves > 0 {
		title += fmt.Sprintf(", %d copies of segments are to be made", r.Moves)
	}
	if r.Missing > 0 {
		title += fmt.Sprintf(", %d of %d segments are missing", r.Missing, r.Segments)
	}
	right := report.Right
	t := &report.Table{Title: title, Columns: []report.Column{{Title: "node"}, {Title: "address"}, {Title: "rack"}, {Title: "state"}, {Title: "version", Align: right}, {Title: "heard", Align: right}, {Title: "owns", Align: right},
		{Title: "holds", Align: right}, {Title: "to get", Align: right}, {Title: "used", Align: right}, {Title: "free", Align: right}, {Title: "blocks", Align: right}}}
	part := func(n uint32) report.Cell { return report.Str(share(n, r.Segments)) }
	for _, n := range r.Nodes {
		state := n.State
		switch {
		case n.Leaving:
			state += ", leaves"
		case n.Leads:
			state += ", leads"
		case n.Votes:
			state += ", votes"
		}
		if n.Differs {
			state += ", has other names"
		}
		heard, used, free := "never", "–", "–"
		if n.SilentS >= 0 {
			heard = time.Duration(n.SilentS * float64(time.Second)).Round(100 * time.Millisecond).String()
			used, free = report.Bytes(int64(n.Used)), report.Bytes(int64(n.Remaining))
		}
		t.Add(report.Str(shortName(n.Name)), report.Str(n.Address), report.Str(cli.OneLine(n.Rack)), report.Str(state), report.Str(understands(n.Version)), report.Str(heard), part(n.Owns), part(n.Holds), part(n.Fills),
			report.Str(used), report.Str(free), report.Num(float64(n.Blocks), report.UnitNone))
	}
	if err := a.Table(t); err != nil {
		return err
	}
	a.Notes(slices.Concat(r.failed(), r.unwritable(), r.homeless()))
	return nil
}

// understands is a version that a node understands, for people.
func understands(version uint32) string {
	if version == 0 {
		return "–"
	}
	return strconv.Itoa(int(version))
}

// versions shows which nodes understand what.
func (r Ring) versions() *report.Table {
	of := map[uint32][]string{}
	for _, n := range r.Nodes {
		of[n.Version] = append(of[n.Version], n.Address)
	}
	all := slices.Sorted(maps.Keys(of))
	t := &report.Table{Title: fmt.Sprintf("version %d is in force", r.Version), Columns: []report.Column{{Title: "understand", Align: report.Right}, {Title: "nodes", Wrap: true}}}
	if len(all) > 0 && all[0] > r.Version {
		t.Title += fmt.Sprintf(", and all nodes understand %d: headrace dfs raise", all[0])
	}
	for _, version := range slices.Backward(all) {
		t.Add(report.Str(understands(version)), report.Str(strings.Join(of[version], " ")))
	}
	return t
}

func raiseVerb(a verbs) *cobra.Command {
	var fs string
	var q wire.RingRaiseRequest
	cmd := &cobra.Command{
		Use:   "raise",
		Short: "Put the newest version in force that all nodes understand, after an update",
		Long: `Raise ends an update of all nodes to a newer version of Headrace. Until then they write
only what nodes of the version before understand, so each may be taken back to it.
After it what is new may be used, and a node of an older version is refused. It is
itself refused as long as a node understands no newer version, is down, or was not
heard lately by the one that leads: headrace dfs status shows that. A node that is out
is not waited for.

Only who may do all may ask, on a machine that has a node, by the address of that one:
who calls from elsewhere cannot prove who it is.`,
		Example: `  headrace dfs status
  headrace dfs raise`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.ring(cmd.Context(), fs)
			if err != nil {
				return err
			}
			if r.Version == 0 {
				return fmt.Errorf("node %s, which leads, is of a version that can raise nothing: update it first", shortName(r.Leader))
			}
			var w wire.RingRaiseResponse
			if err := a.callRing(cmd.Context(), fs, "Raise", &q, &w); err != nil {
				return err
			}
			if a.Format == cli.FormatJSON {
				return cli.WriteJSON(a.Out, struct {
					Version uint32 `json:"version"`
					Raised  bool   `json:"raised"`
				}{w.Version, w.Raised})
			}
			if w.Raised {
				a.Say("version %d is in force", w.Version)
			} else {
				a.Say("version %d is in force already, and all nodes that were heard understand no newer one", w.Version)
			}
			return nil
		},
	}
	fsFlag(cmd, &fs)
	cmd.Flags().BoolVar(&q.DespiteAway, "despite-away", false, "do not wait for nodes that are down: if they are older they are refused when they are back, until they are updated")
	return cmd
}

func drainVerb(a verbs) *cobra.Command {
	return changeVerb(a, "Drain", func(node string) proto.Message { return &wire.RingDrainRequest{Node: node} }, &cobra.Command{
		Use:   "drain NODE",
		Short: "Have others take what a node has, so that it can be taken away",
		Long: `Drain has other nodes get copies of all that a node has. It serves on meanwhile.
Headrace dfs ring shows how much of the ring it holds yet. When headrace dfs remove
succeeds, which it does only if nothing of the node is needed any more, the node can
be stopped, and its disks can be wiped. Headrace dfs fill takes a drain back.`,
		Example: `  headrace dfs drain 10.1.2.4`,
	})
}

func fillVerb(a verbs) *cobra.Command {
	return changeVerb(a, "Fill", func(node string) proto.Message { return &wire.RingFillRequest{Node: node} }, &cobra.Command{
		Use:     "fill NODE",
		Short:   "Give a node its share, after a drain for instance",
		Long:    `Fill gives a node its share of all there is, and takes a drain back.`,
		Example: `  headrace dfs fill 10.1.2.4`,
	})
}

func removeVerb(a verbs) *cobra.Command {
	return changeVerb(a, "Remove", func(node string) proto.Message { return &wire.RingRemoveRequest{Node: node} }, &cobra.Command{
		Use:   "remove NODE",
		Short: "Take a node off the ring that is out, or drained",
		Long: `Remove takes a node off the ring that is out or was drained, and that holds nothing
which is needed. It never is one of this file system again with what it has: to use
the machine again, start with an empty directory.`,
		Example: `  headrace dfs remove 10.1.2.4`,
	})
}

// changeVerb completes a verb that has something happen to a node.
func changeVerb(a verbs, method string, request func(node string) proto.Message, cmd *cobra.Command) *cobra.Command {
	var fs string
	cmd.Long += `

The node is named by its address, with or without the port, or by the beginning of
its name. Only who may do all may ask, on a machine that has a node, by the address
of that one: who calls from elsewhere cannot prove who it is.`
	cmd.Args = cli.Takes(1, 1, "a node")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var r wire.RingChangeResponse
		if err := a.callRing(cmd.Context(), fs, method, request(args[0]), &r); err != nil {
			return err
		}
		if a.Format == cli.FormatJSON {
			return cli.WriteJSON(a.Out, struct {
				Epoch uint64 `json:"epoch"`
				Moves uint32 `json:"moves"`
			}{r.Epoch, r.Moves})
		}
		a.Say("epoch %d: %d copies of segments are to be made", r.Epoch, r.Moves)
		return nil
	}
	fsFlag(cmd, &fs)
	return cmd
}
