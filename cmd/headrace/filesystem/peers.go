package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/token"
	"headrace/dfs"
	"headrace/dfs/gateway"
	"headrace/dfs/member"
	"headrace/dfs/peer"
	"headrace/dfs/web"
)

// peerPort is where nodes reach each other, unless told otherwise.
const peerPort = 9867

// peerFlags say how a node is one of several.
type peerFlags struct {
	join            []string
	tokenFile, rack string
	port            uint16
	prefix          string
}

func (f *peerFlags) add(cmd *cobra.Command, prefix string) {
	flags := cmd.Flags()
	f.prefix = prefix
	flags.StringVar(&f.tokenFile, prefix+"token-file", "", "let nodes join, and join them, who have this `FILE`; the first node makes it")
	flags.StringArrayVar(&f.join, prefix+"join", nil, "join the file system that the node at `HOST[:PORT]` is of; may be repeated (needs --"+prefix+"token-file)")
	flags.Uint16Var(&f.port, prefix+"peer-port", peerPort, "the `PORT` where other nodes reach this one; 0: any")
	flags.StringVar(&f.rack, prefix+"rack", "", "the `RACK` of this node, or whatever else fails as one: copies are put into several")
}

// seeds are the addresses of --join.
func (f *peerFlags) seeds() (all []string, err error) {
	for _, to := range f.join {
		host, port := to, strconv.Itoa(peerPort)
		if h, p, err := net.SplitHostPort(to); err == nil {
			host, port = h, p
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
			return nil, cli.UsageErrorf("--%sjoin %q: want HOST or HOST:PORT, as 10.1.2.3", f.prefix, to)
		}
		all = append(all, net.JoinHostPort(host, port))
	}
	return all, nil
}

func (f *peerFlags) check() error {
	if f.tokenFile == "" && len(f.join) > 0 {
		return cli.UsageErrorf("--%[1]sjoin wants --%[1]stoken-file: copy the file of the node that you join", f.prefix)
	}
	if rack := strings.TrimPrefix(f.rack, "/"); rack != "" && slices.Contains(strings.Split(rack, "/"), "") {
		return cli.UsageErrorf("--%srack %q: want a name, or a path of names, as r1 or /dc1/r1", f.prefix, f.rack)
	}
	_, err := f.seeds()
	return err
}

// peers are how a node reaches others, and they it. All of its methods do nothing for nil, which is that of a node that is alone.
type peers struct {
	port     *peer.Port
	circle   *member.Circle
	listener net.Listener
	self     dfs.Member
	once     sync.Once
	serving  sync.Once
	served   chan error // of the port
}

// openPeers opens the port of a node that is to be one of several, and joins the others if it has not yet. It
// completes the node's configuration.
func (a verbs) openPeers(ctx context.Context, f *peerFlags, listen netip.Addr, host string, c *dfs.Config) (p *peers, err error) {
	if f.tokenFile == "" {
		return nil, nil
	}
	seeds, err := f.seeds()
	if err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		if err := a.makeToken(f.tokenFile, c.Dir); err != nil {
			return nil, err
		}
	}
	tokens, err := token.ReadAll(f.tokenFile, "another node of the file system")
	if err != nil {
		return nil, err
	}
	secret, err := peer.NewSecret(tokens[0], tokens[1:]...)
	if err != nil {
		return nil, err
	}
	p = &peers{port: peer.New(secret, peer.Limits{}, c.Log), served: make(chan error, 1)}
	p.circle = member.New(member.Config{Port: p.port, Seeds: seeds, HostName: host, Log: c.Log})
	if p.listener, err = listenTCP(listen, f.port, "--"+f.prefix+"peer-port"); err == nil {
		c.Self.Peer = uint16(portOf(p.listener))
		if len(seeds) > 0 {
			err = p.join(ctx, seeds, c)
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.self, c.Send, c.Peers = c.Self, p.circle.Send, p.circle
	return p, nil
}

// makeToken makes the token of a first node, unless it is there. With another one than the other nodes have a node of several would be a stranger to them.
func (a verbs) makeToken(file, dir string) error {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		if others, err := dfs.HasOthers(dir); err != nil || others {
			return err // that there is none says who reads it
		}
	}
	made, err := token.Make(file)
	if made {
		a.Say("a token was made in %s; nodes that join need a copy of that file", file)
	}
	return err
}

// knownTime is how long a node asks those that it is to join, which has joined them before.
const knownTime = 2 * time.Second

// join has a node join that is of no file system yet. Of one that is, it looks whether that is theirs: if they answer.
func (p *peers) join(ctx context.Context, seeds []string, c *dfs.Config) error {
	who, err := dfs.Prepare(*c)
	if err != nil {
		return err
	}
	self := c.Self
	self.Name, self.Storage = who.Node, who.Storage
	if who.Pool != "" {
		known, cancel := context.WithTimeout(ctx, knownTime)
		defer cancel()
		if _, _, _, err := p.circle.Join(known, seeds, self, who.Pool); errors.Is(err, dfs.ErrOld) {
			return err
		} else if errors.Is(err, member.ErrRefused) {
			return fmt.Errorf("%w; %s has a file system: join with an empty directory", err, c.Dir)
		}
		return ctx.Err()
	}
	p.serve() // others look whether they reach it
	c.Log.Info("asking to join", "nodes", seeds)
	f, v, _, err := p.circle.Join(ctx, seeds, self, "")
	if err != nil {
		return err
	}
	c.Invitation = &dfs.Invitation{Pool: f.Pool, Owner: f.Owner, Group: f.Group, Key: f.Key, View: v}
	return nil
}

// hostNames returns what says what the machines of nodes are called.
func (p *peers) hostNames(own string) func(node string) string {
	if p == nil {
		return func(string) string { return own }
	}
	return p.circle.Host
}

// connect has what only the node that leads can answer passed on to it.
func (p *peers) connect(g *gateway.Config, w *web.Config) {
	if p != nil {
		g.Pass, g.Heard, g.Understands, w.Pass = p.circle.Pass, p.circle.Heard, p.circle.Understands, p.circle.PassWeb
	}
}

// begin has the node take part, and returns what serves other nodes.
func (p *peers) begin(node *dfs.Node, g *gateway.Gateway, w *web.Server) (serve func() error) {
	p.self.Name, p.self.Storage = node.Identity.Node, node.Identity.Storage
	p.circle.Start(member.Taking{Node: node, Self: p.self, System: node.Identity, Led: g.Led, Blocks: node.Keeper.Service(), Web: w.ServePassed, Return: node.Keeper.Return})
	return func() error {
		p.serve()
		if err := <-p.served; err != nil {
			return fmt.Errorf("the port of the nodes: %w", err)
		}
		return nil
	}
}

// serve answers others at the port, until close.
func (p *peers) serve() {
	p.serving.Do(func() { go func() { p.served <- p.port.Serve(p.listener) }() })
}

func (p *peers) close() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		p.circle.Close()
		p.port.Close()
		if p.listener != nil {
			p.listener.Close()
		}
	})
}
