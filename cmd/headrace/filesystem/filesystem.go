package filesystem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/dfs"
	"headrace/dfs/gateway"
	"headrace/dfs/web"
	"headrace/internal/accounts"
	"headrace/internal/linux"
	"headrace/meta"
)

// verbs are the verbs of the file system.
type verbs struct{ *cli.App }

// Verb returns the verb dfs.
func Verb(app *cli.App) *cobra.Command {
	a := verbs{app}
	cmd := cli.Group(&cobra.Command{
		Use:        "dfs",
		Short:      "A file system that HDFS's clients take for an HDFS",
		SuggestFor: []string{"hdfs", "namenode", "datanode"},
		Long: `Dfs is a file system of one or several machines that speaks HDFS's protocols:
Hadoop's own clients, and whoever else knows HDFS, use it without a change and
without Java on this side. All nodes are alike, and each answers every client. See
docs/dfs.md for what it promises and what not.`,
		Example: `  headrace dfs start --dir /srv/dfs
  HADOOP_CONF_DIR=$(headrace dfs client-config) hdfs dfs -ls /`,
	}, a.TextOnly(startVerb(a)), a.TextOnly(configVerb(a)), statusVerb(a), ringVerb(a), listVerb(a), a.TextOnly(catVerb(a)), a.TextOnly(getVerb(a)),
		a.TextOnly(putVerb(a)), checkVerb(a), drainVerb(a), fillVerb(a), removeVerb(a), raiseVerb(a), a.TextOnly(demoVerb(a)))
	return cmd
}

// StartFlags say how a node of a file system runs.
type StartFlags struct {
	Dir, listen, advertise string
	hostName               string
	disks, newDisks        []string
	port, dataPort, web    uint16
	peers                  peerFlags
	syncOnClose, trust     bool
	minBlock, fetchRate    cli.Size
	cacheMemory            cli.Size
	acceptDamage           bool
	level                  cli.Level
	// prefix begins the names of the flags but for that of Dir.
	prefix string
	// up hears where clients come, once they may.
	up func(addresses string)
	// node is there while it is open.
	node atomic.Pointer[dfs.Node]
	// webAsked says whether a port for WebHDFS was given, cacheAsked whether a size for what is kept in memory was.
	webAsked, cacheAsked func() bool
}

// unused are bytes that are reserved and never touched, so they are no memory. But the collector of garbage counts them: it begins when there is
// as much garbage as there is besides. A small node would have it run for each 15 MB, which 1,500 calls leave behind.
const unused = 32 << 20

func startVerb(a verbs) *cobra.Command {
	var f StartFlags
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Serve the file system in a directory; makes one where there is none",
		Long: `Start serves the file system in --dir until SIGTERM or Ctrl-C, and writes its
addresses to standard output when clients may come: that of HDFS's RPC, and that
of WebHDFS. The user who has made it may do
all in it, and so may members of the group supergroup.

Callers of this machine are who the kernel says they are. Those of other machines
are believed, as by an HDFS without Kerberos: whoever reaches the ports can read
and write everything. So it listens on this machine alone, unless --listen names
another address.

With --token-file other nodes may join who have a copy of that file, by --join; the
first one makes it. A node that has joined finds the others again by itself. Nodes
reach each other at --peer-port; nobody else can do anything there.`,
		Example: `  headrace dfs start --dir /srv/dfs
  headrace dfs start --dir /srv/dfs --disk /disk1/dfs --disk /disk2/dfs
  headrace dfs start --dir /srv/dfs --listen 10.1.2.3 --token-file token
  headrace dfs start --dir /srv/dfs --listen 10.1.2.4 --token-file token --join 10.1.2.3`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.Level(f.level)}))
			WarnOfAccounts(log)
			f.up = func(addresses string) {
				fmt.Fprint(a.Out, addresses) // at once: some read one line and no more
				if err := linux.NotifyReady(); err != nil {
					log.Warn("systemd cannot be told that the file system is up", "err", err)
				}
			}
			defer runtime.KeepAlive(make([]byte, unused))
			return a.start(cmd.Context(), &f, log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Dir, "dir", "", "the `DIR` of the file system: its names, and its blocks unless there is a --disk")
	f.Define(cmd, "")
	flags.BoolVar(&f.acceptDamage, "accept-damage", false, "go on, once, with names that have decayed on the disk: what is missing of them is lost, and blocks that no file has are deleted later")
	flags.Var(&f.level, "log-level", "debug, info, warn or error")
	cli.CompleteValues(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

// Define defines the flags that are about the file system, whose names begin with prefix.
func (f *StartFlags) Define(cmd *cobra.Command, prefix string) {
	flags := cmd.Flags()
	f.prefix = prefix
	flags.StringArrayVar(&f.disks, prefix+"disk", nil, "a `DIR` for blocks, one for each disk; may be repeated (default: blocks in the file system's)")
	flags.StringArrayVar(&f.newDisks, prefix+"new-disk", nil, "a `DIR` whose blocks are given up: it is empty because the disk that was there is lost, or it is no --disk any more; may be repeated. Otherwise an empty one is left out, for it may just not be mounted, and a start without one is refused")
	flags.StringVar(&f.listen, prefix+"listen", "127.0.0.1", "the IP `ADDRESS` to listen on")
	flags.StringVar(&f.advertise, prefix+"advertise", "", "the IP `ADDRESS` by which clients reach this machine (default: that of --"+prefix+"listen)")
	flags.StringVar(&f.hostName, prefix+"host-name", "", "the `NAME` of this machine for those who run tasks near their data, as YARN's NodeManager on it has it (default: what the address by which clients reach it is called)")
	flags.Uint16Var(&f.port, prefix+"port", 8020, "the `PORT` of RPC; 0: any")
	flags.Uint16Var(&f.dataPort, prefix+"data-port", 9866, "the `PORT` of data transfer; 0: any")
	f.webAsked = func() bool { return flags.Changed(prefix + "http-port") }
	flags.Uint16Var(&f.web, prefix+"http-port", 9870, "the `PORT` of WebHDFS, the page and metrics; 0: they are not served")
	f.peers.add(cmd, prefix)
	flags.BoolVar(&f.syncOnClose, prefix+"sync-on-close", false, "make each block durable when it is closed; otherwise a power failure may take what nobody has synced, as in HDFS")
	flags.BoolVar(&f.trust, prefix+"trust-names", false, "believe callers of this machine that they are who they say (HADOOP_USER_NAME), as HDFS does")
	f.cacheAsked = func() bool { return flags.Changed(prefix + "cache-memory") }
	flags.Var(&f.cacheMemory, prefix+"cache-memory", "how much of blocks may be kept in memory for the directives of hdfs cacheadmin; 0: nothing (default: a quarter of the memory)")
	f.minBlock, f.fetchRate = 1<<20, 100e6
	flags.Var(&f.minBlock, prefix+"min-block-size", "the smallest block size of a file, for a file system that is made now")
	flags.Var(&f.fetchRate, prefix+"fetch-rate", "how much a second is fetched from other nodes to make copies that are missing, 32MB at least; 0: as much as goes")
	flags.Lookup(prefix+"min-block-size").DefValue, flags.Lookup(prefix+"fetch-rate").DefValue = "1MiB", "100MB" // and not numbers of bytes
}

// Check refuses flags that cannot be followed, whatever the machine is like.
func (f *StartFlags) Check() error {
	if _, _, err := f.addresses(); err != nil {
		return err
	}
	if rate := int64(f.fetchRate); rate != 0 && rate < leastFetchRate {
		return cli.UsageErrorf("--%sfetch-rate %v: want 32MB or more, or 0; copies that take too long are begun again", f.prefix, f.fetchRate)
	}
	if strings.ContainsAny(f.hostName, " /,\t\n") || len(f.hostName) > mostHostName {
		return cli.UsageErrorf("--%shost-name %q: want the name of a machine", f.prefix, f.hostName)
	}
	return f.peers.check()
}

// addresses are where to listen, and what clients are told.
func (f *StartFlags) addresses() (listen, advertise netip.Addr, err error) {
	if listen, err = netip.ParseAddr(f.listen); err != nil {
		return listen, advertise, cli.UsageErrorf("--%slisten %q: want an IP address, such as 127.0.0.1", f.prefix, f.listen)
	}
	if f.advertise == "" {
		if listen.IsUnspecified() {
			return listen, advertise, cli.UsageErrorf("--%[1]slisten %[2]s is all addresses: say with --%[1]sadvertise by which of them clients reach this machine", f.prefix, f.listen)
		}
		return listen, listen, nil
	}
	if advertise, err = netip.ParseAddr(f.advertise); err != nil {
		return listen, advertise, cli.UsageErrorf("--%sadvertise %q: want an IP address", f.prefix, f.advertise)
	}
	return listen, advertise, nil
}

// WarnOfAccounts logs, for a daemon that starts, why it does not know users and groups that
// this machine has.
func WarnOfAccounts(log *slog.Logger) {
	if err := accounts.Here.Problem(); err != nil {
		log.Warn(err.Error())
	}
}

func (a verbs) start(ctx context.Context, f *StartFlags, log *slog.Logger) error {
	if f.Dir == "" {
		return cli.UsageErrorf("--dir is missing: name the directory of the file system")
	}
	if err := f.Check(); err != nil {
		return err
	}
	listen, advertise, err := f.addresses()
	if err != nil {
		return err
	}
	owner, err := accounts.Here.Self()
	if err != nil {
		return fmt.Errorf("find out who owns the file system: %w", err)
	}
	rpc, err := listenTCP(listen, f.port, "--"+f.prefix+"port")
	if err != nil {
		return err
	}
	defer rpc.Close()
	data, err := listenTCP(listen, f.dataPort, "--"+f.prefix+"data-port")
	if err != nil {
		return err
	}
	defer data.Close()
	http, err := f.listenHTTP(listen, log)
	if err != nil {
		return err
	}
	if http != nil {
		defer http.Close()
	}
	m := meta.DefaultConfig()
	m.MinBlockSize = int64(f.minBlock)
	rate := int64(f.fetchRate)
	if rate == 0 {
		rate = -1
	}
	c := dfs.Config{Dir: f.Dir, FetchRate: rate, CacheMemory: f.cacheBytes(), Disks: f.disks, NewDisks: f.newDisks, Owner: owner.Name, Meta: &m, SyncOnClose: f.syncOnClose, AcceptDamage: f.acceptDamage, Log: log,
		Self: dfs.Member{Host: advertise.String(), RPC: uint16(portOf(rpc)), Data: uint16(portOf(data)), Rack: f.peers.rack}}
	if http != nil {
		c.Self.Web = uint16(portOf(http))
	}
	host := cmp.Or(f.hostName, hostName(ctx, advertise))
	p, err := a.openPeers(ctx, &f.peers, listen, host, &c)
	if err != nil {
		return err
	}
	defer p.close()
	c.HostName = p.hostNames(host)
	node, err := dfs.Open(c)
	if err != nil {
		return err
	}
	if !listen.IsLoopback() {
		log.Warn("callers of other machines are not proved: whoever reaches this address can read and write everything", "address", listen)
	}
	f.node.Store(node)
	err = a.serve(ctx, f, node, fronts{rpc, data, http}, p, advertise, log)
	f.node.Store(nil)
	p.close() // nobody asks the node any more
	if closing := node.Close(); err == nil {
		err = closing
	}
	return err
}

// cacheBytes is Config.CacheMemory of package dfs.
func (f *StartFlags) cacheBytes() int64 {
	if f.cacheMemory == 0 && f.cacheAsked() {
		return -1
	}
	return int64(f.cacheMemory)
}

// leastFetchRate lets all copies that may be fetched at a time come within the time that each may take.
const leastFetchRate = 32e6

func listenTCP(on netip.Addr, port uint16, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(on, port).String())
	if err != nil {
		return nil, fmt.Errorf("%w; another port may be named with %s", err, flag)
	}
	return l, nil
}

// mostHostName is the longest name of a machine.
const mostHostName = 253

// lookupTime is how long it may take to find out what a machine is called.
const lookupTime = 3 * time.Second

// hostName is what the machine at an address is called, as Java has it (InetAddress.getCanonicalHostName), so that it is what a NodeManager
// calls it; "" when it has no name, or one that leads elsewhere. One at a loopback address has the name that it gives itself.
func hostName(ctx context.Context, at netip.Addr) string {
	if at.IsLoopback() {
		name, _ := os.Hostname()
		return name
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	names, _ := net.DefaultResolver.LookupAddr(ctx, at.String())
	for _, name := range names {
		there, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		if slices.ContainsFunc(there, func(a netip.Addr) bool { return a.Unmap() == at.Unmap() }) {
			return strings.TrimSuffix(name, ".")
		}
	}
	return ""
}

// listenHTTP returns nil when WebHDFS is not to be served. Its port is taken where an HDFS runs, or another node: who has not asked for it
// gets the rest.
func (f *StartFlags) listenHTTP(on netip.Addr, log *slog.Logger) (net.Listener, error) {
	if f.web == 0 {
		return nil, nil
	}
	l, err := listenTCP(on, f.web, "--"+f.prefix+"http-port")
	if err != nil && !f.webAsked() && errors.Is(err, syscall.EADDRINUSE) {
		log.Warn("WebHDFS is not served", "err", err)
		return nil, nil
	}
	return l, err
}

// fronts are where clients come; http may be nil.
type fronts struct{ rpc, data, http net.Listener }

// serve serves until it is to end, or the node fails.
func (a verbs) serve(ctx context.Context, f *StartFlags, node *dfs.Node, on fronts, p *peers, advertise netip.Addr, log *slog.Logger) error {
	rpc, data := portOf(on.rpc), portOf(on.data)
	toGateway := gateway.Config{Node: node, Host: advertise.String(), Trust: f.trust, Log: log}
	toWeb := web.Config{Node: node, Host: advertise.String(), RPCPort: rpc, DataPort: data, Trust: f.trust, Log: log}
	if on.http != nil {
		toGateway.WebPort = portOf(on.http)
	}
	p.connect(&toGateway, &toWeb)
	g := gateway.New(toGateway)
	toWeb.Gateway = g
	w := web.New(toWeb)
	serving := []func() error{func() error { return g.Serve(on.rpc, on.data) }}
	if p != nil {
		serving = append(serving, p.begin(node, g, w))
	}
	at := func(scheme string, port int) string {
		return scheme + "://" + net.JoinHostPort(advertise.String(), strconv.Itoa(port)) + "\n"
	}
	addresses := at("hdfs", rpc)
	if on.http != nil {
		serving = append(serving, func() error { return w.Serve(on.http) })
		addresses += at("http", portOf(on.http))
	}
	ended := make(chan error, len(serving))
	for _, serve := range serving {
		go func() { ended <- serve() }()
	}
	f.up(addresses)
	var err error
	left := len(serving)
	select {
	case err = <-ended:
		left--
	case <-node.Failed():
	case <-ctx.Done():
	}
	w.Shutdown()
	g.Shutdown()
	p.close()
	for range left {
		<-ended
	}
	return cmp.Or(err, node.Failure())
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
