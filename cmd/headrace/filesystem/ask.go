package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/internal/accounts"
	"headrace/report"
)

// asker is a connection to a file system.
type asker struct {
	*ipc.Client
	ctx  context.Context
	user string
}

// clientProtocol is by which clients ask an HDFS.
const clientProtocol = "org.apache.hadoop.hdfs.protocol.ClientProtocol"

// reach connects to a file system, as Hadoop's clients do.
func (a verbs) reach(ctx context.Context, fs string, f func(asker) error) error {
	return a.reachFor(ctx, fs, clientProtocol, f)
}

// reachFor connects to a file system for a protocol: to the first of its nodes that answers.
func (a verbs) reachFor(ctx context.Context, fs, protocol string, f func(asker) error) error {
	addresses, err := Addresses(fs)
	if err != nil {
		return err
	}
	name := os.Getenv("HADOOP_USER_NAME")
	if name == "" {
		u, err := accounts.Here.Self()
		if err != nil {
			return fmt.Errorf("find out who asks: %w; or set HADOOP_USER_NAME", err)
		}
		name = u.Name
	}
	var unheard error
	for _, address := range addresses {
		dial, cancel := context.WithTimeout(ctx, cli.AnswerTime)
		c, err := ipc.Dial(dial, address, ipc.Options{Protocol: protocol, User: ipc.User{Name: name}})
		cancel()
		if err == nil {
			defer c.Close()
			return readable(f(asker{c, ctx, name}))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		unheard = err
	}
	return cli.Exit(cli.ExitNoDaemon, fmt.Errorf("no file system at %s: %w; start one with: headrace dfs start, or name another with --fs", fs, unheard))
}

// readable leaves out the class of an exception.
func readable(err error) error {
	if e := new(ipc.Exception); errors.As(err, &e) {
		return errors.New(e.Message)
	}
	return err
}

func statusVerb(a verbs) *cobra.Command {
	var fs string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell what the file system has and has room for",
		Long: `Status asks the file system how full its disks are, how many of its blocks cannot
be read, how many have fewer copies than they are to have, and how many parts of its
disks could not be read; and which version is in force, and which each node
understands (headrace dfs raise). Headrace dfs ring says more about its nodes.`,
		Example: `  headrace dfs status
  headrace dfs status --format json | jq .remaining`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reach(cmd.Context(), fs, func(c asker) error { return a.status(c, fs) })
		},
	}
	fsFlag(cmd, &fs)
	return cmd
}

// Status is what headrace dfs status tells.
type Status struct {
	Address   string `json:"address"`
	Capacity  uint64 `json:"capacity"`
	Used      uint64 `json:"used"`
	Remaining uint64 `json:"remaining"`
	// Blocks are copies of blocks, of all nodes.
	Blocks  uint32 `json:"blocks"`
	Missing uint64 `json:"missing"`
	// Lacking have fewer copies than they are to have.
	Lacking uint64 `json:"lacking"`
	Nodes   int    `json:"nodes"`
	Down    int    `json:"down"`
	// Differing nodes have come to other names than the one that leads.
	Differing int `json:"differing"`
	// Gaps are parts of files of blocks that nodes could not read when they were started; headrace dfs ring says where.
	Gaps uint64 `json:"gaps"`
	// FailedDisks are out of use, Homeless are blocks for which a node has no room; headrace dfs ring says which, and what can be done.
	FailedDisks int    `json:"failedDisks"`
	Homeless    uint64 `json:"homeless"`
	// Unwritable are directories that nodes cannot write any more.
	Unwritable int  `json:"unwritable"`
	SafeMode   bool `json:"safeMode"`
	// Version is the one in force, Versions are those that nodes understand.
	Version  uint32        `json:"version"`
	Versions []NodeVersion `json:"versions"`
}

// NodeVersion is what a node understands; 0: it has not said so yet.
type NodeVersion struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Version uint32 `json:"version"`
}

func (a verbs) status(c asker, fs string) error {
	var stats pb.GetFsStatsResponseProto
	var nodes, dead pb.GetDatanodeReportResponseProto
	var safe pb.SetSafeModeResponseProto
	err := errors.Join(c.Call(c.ctx, "getFsStats", &pb.GetFsStatusRequestProto{}, &stats),
		c.Call(c.ctx, "getDatanodeReport", &pb.GetDatanodeReportRequestProto{Type: pb.DatanodeReportTypeProto_LIVE.Enum()}, &nodes),
		c.Call(c.ctx, "getDatanodeReport", &pb.GetDatanodeReportRequestProto{Type: pb.DatanodeReportTypeProto_DEAD.Enum()}, &dead),
		c.Call(c.ctx, "setSafeMode", &pb.SetSafeModeRequestProto{Action: pb.SafeModeActionProto_SAFEMODE_GET.Enum()}, &safe))
	if err != nil {
		return err
	}
	s := Status{Address: fs, Capacity: stats.GetCapacity(), Used: stats.GetUsed(), Remaining: stats.GetRemaining(), Missing: stats.GetMissingBlocks(),
		Lacking: stats.GetUnderReplicated(), Nodes: len(nodes.Di) + len(dead.Di), Down: len(dead.Di), SafeMode: safe.GetResult()}
	for _, n := range nodes.Di {
		s.Blocks += n.GetNumBlocks()
	}
	w, err := a.ring(c.ctx, fs)
	if err != nil {
		return err
	}
	r := ringOf(w)
	s.Version, s.Versions = r.Version, []NodeVersion{}
	for _, n := range r.Nodes {
		s.Gaps += n.Gaps
		s.FailedDisks += len(n.Failed)
		s.Homeless += n.Homeless
		s.Unwritable += len(n.Unwritable)
		if n.Differs {
			s.Differing++
		}
		s.Versions = append(s.Versions, NodeVersion{n.Name, n.Address, n.Version})
	}
	if a.Format == cli.FormatJSON {
		return cli.WriteJSON(a.Out, s)
	}
	title := fs
	if s.Nodes > 1 {
		title += fmt.Sprintf(", %d nodes", s.Nodes)
	}
	if s.Down > 0 {
		title += fmt.Sprintf(", %d of them down", s.Down)
	}
	if s.Differing > 0 {
		title += fmt.Sprintf(", %d of them with other names than the one that leads: see docs/dfs.md, \"When the names decay\"", s.Differing)
	}
	if s.Gaps > 0 {
		title += fmt.Sprintf(", %d parts of files of blocks cannot be read: headrace dfs fsck says which", s.Gaps)
	}
	if s.FailedDisks > 0 {
		title += fmt.Sprintf(", %d disks are out of use: headrace dfs ring says which", s.FailedDisks)
	}
	if s.Unwritable > 0 {
		title += fmt.Sprintf(", %d directories cannot be written any more: headrace dfs ring says which", s.Unwritable)
	}
	if s.Homeless > 0 {
		title += fmt.Sprintf(", no room for %d blocks where they are to be: headrace dfs ring says what can be done", s.Homeless)
	}
	if s.SafeMode {
		title += ", in safe mode: nothing can be changed"
	}
	t := &report.Table{Title: title, Columns: []report.Column{{Title: "capacity", Align: report.Right}, {Title: "used", Align: report.Right},
		{Title: "free", Align: report.Right}, {Title: "copies of blocks", Align: report.Right}, {Title: "with too few", Align: report.Right}, {Title: "without a good one", Align: report.Right}}}
	bytes := func(n uint64) report.Cell { return report.Str(report.Bytes(int64(n))) }
	t.Add(bytes(s.Capacity), bytes(s.Used), bytes(s.Remaining), report.Num(float64(s.Blocks), report.UnitNone), report.Num(float64(s.Lacking), report.UnitNone),
		report.Num(float64(s.Missing), report.UnitNone))
	return a.Tables([]*report.Table{t, r.versions()})
}

func listVerb(a verbs) *cobra.Command {
	var fs string
	cmd := &cobra.Command{
		Use:   "ls [PATH]",
		Short: "List a directory of the file system",
		Long: `Ls lists what is in a directory, by default the root, or a file. It needs no
Java; hdfs dfs does the rest.`,
		Example: `  headrace dfs ls /
  headrace dfs ls --format json /logs | jq -r '.[].name'`,
		Args:              cli.Takes(0, 1, "a path"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reach(cmd.Context(), fs, func(c asker) error { return a.list(c, pathOf(args)) })
		},
	}
	fsFlag(cmd, &fs)
	return cmd
}

// pathOf is the path that a verb was given, by default the root.
func pathOf(args []string) string { return fromRoot(append(args, "")[0]) }

// Entry is a line of headrace dfs ls.
type Entry struct {
	Name     string    `json:"name"`
	Mode     string    `json:"mode"`
	Owner    string    `json:"owner"`
	Group    string    `json:"group"`
	Size     uint64    `json:"size"`
	Modified time.Time `json:"modified"`
}

func (a verbs) list(c asker, path string) error {
	all := []Entry{}
	need := false
	for after := []byte{}; after != nil; {
		var l pb.GetListingResponseProto
		if err := c.Call(c.ctx, "getListing", &pb.GetListingRequestProto{Src: &path, StartAfter: after, NeedLocation: &need}, &l); err != nil {
			return err
		}
		if l.DirList == nil {
			return cli.Exit(cli.ExitNotFound, fmt.Errorf("there is no %s", path))
		}
		after = nil
		for _, s := range l.DirList.PartialListing {
			all = append(all, dfsEntryOf(s, path))
			if l.DirList.GetRemainingEntries() > 0 {
				after = s.Path
			}
		}
	}
	if a.Format == cli.FormatJSON {
		return cli.WriteJSON(a.Out, all)
	}
	t := &report.Table{Columns: []report.Column{{Title: "mode"}, {Title: "owner"}, {Title: "group"}, {Title: "size", Align: report.Right},
		{Title: "modified"}, {Title: "name", Flex: true}}}
	for _, e := range all {
		t.Add(report.Str(e.Mode), report.Str(cli.OneLine(e.Owner)), report.Str(cli.OneLine(e.Group)), report.Str(report.Bytes(int64(e.Size))),
			report.Str(e.Modified.Local().Format("2006-01-02 15:04")), report.Str(cli.OneLine(e.Name)))
	}
	return a.Table(t)
}

func dfsEntryOf(s *pb.HdfsFileStatusProto, path string) Entry {
	mode := fs.FileMode(s.GetPermission().GetPerm() & 0o777)
	if s.GetFileType() == pb.HdfsFileStatusProto_IS_DIR {
		mode |= fs.ModeDir
	}
	if s.GetPermission().GetPerm()&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	name := string(s.Path)
	if name == "" {
		name = path
	}
	return Entry{name, mode.String(), s.GetOwner(), s.GetGroup(), s.GetLength(), time.UnixMilli(int64(s.GetModificationTime())).UTC()}
}

func checkVerb(a verbs) *cobra.Command {
	var fs string
	cmd := &cobra.Command{
		Use:   "fsck [PATH]",
		Short: "Name the files that cannot be read whole",
		Long: `Fsck lists the files below a path, by default all, that have a block of which no
copy can be read: missing, damaged, not what the file says, or on nodes that are
down. It looks at what nodes know of their copies, and reads none; each node itself
reads all of its own every week. Only who may do all may ask.

On its standard error it names parts of disks that nodes could not read when they were
started, with the files of which the blocks there were. Copies there count for nothing,
and are made elsewhere from others. Such a disk is about to fail: take it away, or drain
the node. It names disks that are out of use, too, and nodes that have no room for all
that is to be there. With --format json all that is in headrace dfs ring.

It ends with 1 when there is such a file, such a part of a disk, or a disk out of use;
with 0 else.`,
		Example:           `  headrace dfs fsck /user`,
		Args:              cli.Takes(0, 1, "a path"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reach(cmd.Context(), fs, func(c asker) error { return a.check(c, fs, pathOf(args)) })
		},
	}
	fsFlag(cmd, &fs)
	return cmd
}

func (a verbs) check(c asker, fs, path string) error {
	var at pb.GetFileInfoResponseProto
	if err := c.Call(c.ctx, "getFileInfo", &pb.GetFileInfoRequestProto{Src: &path}, &at); err != nil {
		return err
	}
	if at.Fs == nil { // of what is not there nothing is bad
		return cli.Exit(cli.ExitNotFound, fmt.Errorf("there is no %s", path))
	}
	bad := []string{}
	for cookie := (*string)(nil); ; {
		var r pb.ListCorruptFileBlocksResponseProto
		if err := c.Call(c.ctx, "listCorruptFileBlocks", &pb.ListCorruptFileBlocksRequestProto{Path: &path, Cookie: cookie}, &r); err != nil {
			return err
		}
		if len(r.Corrupt.GetFiles()) == 0 {
			break
		}
		for _, f := range r.Corrupt.Files {
			if len(bad) == 0 || bad[len(bad)-1] != f {
				bad = append(bad, f)
			}
		}
		cookie = r.Corrupt.Cookie
	}
	if a.Format == cli.FormatJSON {
		if err := cli.WriteJSON(a.Out, bad); err != nil {
			return err
		}
	} else {
		for _, f := range bad {
			if _, err := fmt.Fprintln(a.Out, cli.OneLine(f)); err != nil {
				return err
			}
		}
	}
	r, err := a.ring(c.ctx, fs)
	if err != nil {
		return err
	}
	now := ringOf(r)
	gaps, failed := now.gaps(path), now.failed()
	a.Notes(slices.Concat(gaps, failed, now.homeless()))
	if len(bad) > 0 {
		return cli.Exit(cli.ExitFailure, fmt.Errorf("%d files cannot be read whole", len(bad)))
	}
	if len(gaps) > 0 {
		return cli.Exit(cli.ExitFailure, fmt.Errorf("all files below %s have a good copy of each block, but there are parts of disks that could not be read", path))
	}
	if len(failed) > 0 {
		return cli.Exit(cli.ExitFailure, fmt.Errorf("all files below %s have a good copy of each block, but %d disks are out of use", path, len(failed)))
	}
	var stats pb.GetFsStatsResponseProto
	if err := c.Call(c.ctx, "getFsStats", &pb.GetFsStatusRequestProto{}, &stats); err != nil {
		return err
	}
	more := ""
	if n := stats.GetUnderReplicated(); n > 0 {
		more = fmt.Sprintf("; %d blocks of all have fewer copies than they are to have", n)
	}
	a.Say("all files below %s have a good copy of each block%s", path, more)
	return nil
}
