package filesystem

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/internal/linux"
	"headrace/ring"
)

// defaultFS is where headrace dfs start serves unless it is told otherwise.
const defaultFS = "hdfs://127.0.0.1:8020"

func fsFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "fs", defaultFS, "the `URL` of the file system, hdfs://HOST:PORT, of any of its nodes; more of them may follow behind commas")
}

// Addresses returns the HOST:PORT of nodes of a file system.
func Addresses(fs string) (all []string, err error) {
	for part := range strings.SplitSeq(strings.TrimPrefix(fs, "hdfs://"), ",") {
		u, err := url.Parse("hdfs://" + part)
		if err != nil || !strings.HasPrefix(fs, "hdfs://") || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
			return nil, cli.UsageErrorf("--fs %q: want hdfs://HOST:PORT, as headrace dfs start writes it", fs)
		}
		all = append(all, u.Host)
	}
	return all, nil
}

func configVerb(a verbs) *cobra.Command {
	var fs, name string
	var offline bool
	cmd := &cobra.Command{
		Use:   "client-config [DIR]",
		Short: "Write the configuration of HDFS's clients; prints its directory",
		Long: `Client-config writes core-site.xml and hdfs-site.xml for Hadoop's clients, to DIR,
or else to a directory in the user's configuration, and prints its name. Files
there that it has not written are left alone, and it fails.

The file system is asked for its nodes. If there are several, or --fs names several,
clients are told of all of them under one name, hdfs://NAME: they turn to the first,
the one that leads now, and to another one when that is lost; any answers everything.
Write it again when nodes have come or gone. If nobody answers, nothing is written,
unless --offline says that the nodes are those of --fs.`,
		Example: `  export HADOOP_CONF_DIR=$(headrace dfs client-config)
  headrace dfs client-config --fs hdfs://10.1.2.3:8020 /etc/hadoop/dfs`,
		Args: cli.Takes(0, 1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.clientsOf(cmd.Context(), fs, offline)
			if err != nil {
				return err
			}
			if c.name = name; !hostLike.MatchString(name) {
				return cli.UsageErrorf("--name %q: want letters, digits, and hyphens between them", name)
			}
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			} else if dir, err = os.UserConfigDir(); err != nil {
				return fmt.Errorf("name a directory: %w", err)
			} else {
				first, _ := Addresses(fs)
				dir = filepath.Join(dir, "headrace", "dfs-"+strings.ReplaceAll(first[0], ":", "-"))
			}
			return a.clientConfig(dir, c)
		},
	}
	fsFlag(cmd, &fs)
	cmd.Flags().StringVar(&name, "name", "headrace", "the `NAME` of a file system of several nodes, for clients")
	cmd.Flags().BoolVar(&offline, "offline", false, "do not ask the file system: its nodes are those that --fs names")
	return cmd
}

// hostLike is what Java takes for the host of a URL; with anything else in it, as _, there is none.
var hostLike = regexp.MustCompile("^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$")

// clientsView is what clients are told of a file system.
type clientsView struct {
	name  string
	nodes []clientsNode
	// copies are how many a file has by default.
	copies int
}

// clientsNode is where clients reach a node; web may be empty.
type clientsNode struct{ rpc, web string }

// defaultCopies is dfs.replication of HDFS's clients.
const defaultCopies = 3

func rpcOf(addresses []string) (nodes []clientsNode) {
	for _, address := range addresses {
		nodes = append(nodes, clientsNode{rpc: address})
	}
	return nodes
}

// askTime is how long a file system may take to say which nodes it has.
const askTime = 5 * time.Second

// clientsOf asks a file system for its nodes, or takes those that are named.
func (a verbs) clientsOf(ctx context.Context, fs string, offline bool) (c clientsView, err error) {
	addresses, err := Addresses(fs)
	if err != nil {
		return c, err
	}
	if offline {
		return clientsView{nodes: rpcOf(addresses), copies: defaultCopies}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := a.ring(ctx, fs)
	if err != nil { // what was written when it answered is better than a guess
		return c, fmt.Errorf("nothing is written, for it is not known which nodes there are (--offline: those of --fs): %w", err)
	}
	if len(r.Nodes) == 1 && len(addresses) == 1 {
		return clientsView{nodes: rpcOf(addresses), copies: 1}, nil
	}
	members := 0
	for _, n := range r.Nodes {
		m := n.GetMember()
		node := clientsNode{rpc: hostPort(m.GetHost(), m.GetRpcPort())}
		if m.GetWebPort() != 0 {
			node.web = hostPort(m.GetHost(), m.GetWebPort())
		}
		if !n.Leaving { // one that is out may come back, or another in its place
			members++
		}
		if n.State != ring.IsOut.String() && !n.Leaving {
			c.nodes = append(c.nodes, node)
			if n.Leads { // the others pass on to it what is about names, which costs more than to answer it
				last := len(c.nodes) - 1
				c.nodes[0], c.nodes[last] = c.nodes[last], c.nodes[0]
			}
		}
	}
	c.copies = min(int(r.Replicas), members)
	return c, nil
}

// properties are those of core-site.xml and hdfs-site.xml.
func (c clientsView) properties() map[string][][2]string {
	copies := [][2]string{
		{"dfs.replication", strconv.Itoa(c.copies)},
		// Where there is no other node to take the place of one, files can be written and appended to all the same.
		{"dfs.client.block.write.replace-datanode-on-failure.best-effort", "true"},
	}
	if len(c.nodes) == 1 {
		// A call waits for a node that is started again, as it waits for another one where there are several: else it fails at once.
		// Where nobody is there, each of six tries takes five seconds.
		patient := [][2]string{{"dfs.client.retry.policy.enabled", "true"}, {"dfs.client.retry.policy.spec", "1000,5"}}
		return map[string][][2]string{"core-site.xml": {{"fs.defaultFS", "hdfs://" + c.nodes[0].rpc}}, "hdfs-site.xml": append(copies, patient...)}
	}
	site := append(copies, [][2]string{
		{"dfs.nameservices", c.name},
		{"dfs.client.failover.proxy.provider." + c.name, "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"},
		{"dfs.client.failover.random.order", "false"},
	}...)
	var names []string
	for i, n := range c.nodes {
		name := fmt.Sprintf("n%d", i+1)
		names = append(names, name)
		site = append(site, [2]string{"dfs.namenode.rpc-address." + c.name + "." + name, n.rpc})
		if n.web != "" {
			site = append(site, [2]string{"dfs.namenode.http-address." + c.name + "." + name, n.web})
		}
	}
	site = append(site, [2]string{"dfs.ha.namenodes." + c.name, strings.Join(names, ",")})
	// So many milliseconds does a node whose machine is off cost each new client, and not 20 seconds.
	core := [][2]string{{"fs.defaultFS", "hdfs://" + c.name}, {"ipc.client.connect.timeout", "3000"}}
	return map[string][][2]string{"core-site.xml": core, "hdfs-site.xml": site}
}

// made begins the files that client-config writes.
const made = "<!-- Written by headrace dfs client-config. -->"

func (a verbs) clientConfig(dir string, c clientsView) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, properties := range c.properties() {
		path := filepath.Join(dir, name)
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err == nil && !bytes.Contains(old, []byte(made)) {
			return fmt.Errorf("%s is there, and headrace dfs client-config has not written it: name another directory", path)
		}
		if err := linux.WriteFileDurably(path, siteFile(properties), 0o644); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.Out, dir)
	return err
}

// siteFile is a file of settings as Hadoop has them.
func siteFile(properties [][2]string) []byte {
	var b bytes.Buffer
	b.WriteString("<?xml version=\"1.0\"?>\n" + made + "\n<configuration>\n")
	for _, p := range properties {
		b.WriteString("  <property><name>")
		xml.EscapeText(&b, []byte(p[0]))
		b.WriteString("</name><value>")
		xml.EscapeText(&b, []byte(p[1]))
		b.WriteString("</value></property>\n")
	}
	b.WriteString("</configuration>\n")
	return b.Bytes()
}
