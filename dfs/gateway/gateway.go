package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
)

// Config says what is served, and as what.
type Config struct {
	Node *dfs.Node
	// Host is the address by which clients reach this node: an IP address.
	Host string
	// Groups returns the groups of a user; nil asks this machine.
	Groups func(user string) []string
	// Trust: see dfs.Callers.
	Trust bool
	Log   *slog.Logger
}

// A Gateway serves a node to clients.
type Gateway struct {
	node *dfs.Node
	log  *slog.Logger
	host string
	// Of the listeners: clients are told of them.
	rpcPort, dataPort uint32

	callers dfs.Callers
	tokens  *dfs.Tokens
	health  health
	rpc     ipc.Server
	data    xfer.Server
}

// mostRequest is the largest request in bytes. HDFS's clients send nothing that is nearly as large, and
// a path of that length takes some memory to look at.
const mostRequest = 8 << 20

// New returns a gateway. It serves once Serve is called.
func New(c Config) *Gateway {
	g := &Gateway{node: c.Node, host: c.Host, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)), callers: dfs.Callers{Node: c.Node, Groups: c.Groups, Trust: c.Trust},
		tokens: c.Node.Tokens()}
	serve := func(d protoreflect.FileDescriptor, methods ...table) ipc.Handler {
		return g.service(d.Services().Get(0), methods...)
	}
	g.rpc = ipc.Server{Log: g.log, Prove: g.callers.Prove, Limits: ipc.Limits{Frame: mostRequest}, Protocols: map[string]ipc.Handler{
		"org.apache.hadoop.hdfs.protocol.ClientProtocol":         serve(pb.File_ClientNamenodeProtocol_proto, names, look, write, attributes, admin, absent, refused),
		"org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol": serve(pb.File_ClientDatanodeProtocol_proto, dataNode),
		"org.apache.hadoop.ha.HAServiceProtocol":                 serve(pb.File_HAServiceProtocol_proto, available),
		"org.apache.hadoop.tools.GetUserMappingsProtocol":        serve(pb.File_GetUserMappingsProtocol_proto, mappings),
	}}
	g.data = xfer.Server{Log: g.log, Store: &replicas{g.node}, Verify: true,
		Check: func(_ context.Context, a xfer.Access) error { return g.tokens.Check(a) },
		Issue: func(b xfer.Block) *pb.TokenProto { return g.tokens.Issue(b.ID, pb.AccessModeProto_REPLACE) }}
	return g
}

// Serve serves RPC and data transfer, until Shutdown or until a listener fails. It closes the listeners.
func (g *Gateway) Serve(rpc, data net.Listener) error {
	g.rpcPort, g.dataPort = port(rpc), port(data)
	ended := make(chan error, 2)
	go func() { ended <- g.rpc.Serve(rpc) }()
	go func() { ended <- g.data.Serve(data) }()
	err := <-ended
	if !errors.Is(err, ipc.ErrClosed) && !errors.Is(err, xfer.ErrClosed) {
		err = errors.Join(err, g.close())
	}
	if e := <-ended; !errors.Is(e, ipc.ErrClosed) && !errors.Is(e, xfer.ErrClosed) {
		err = errors.Join(err, e)
	}
	if errors.Is(err, ipc.ErrClosed) || errors.Is(err, xfer.ErrClosed) {
		return nil
	}
	return err
}

func (g *Gateway) close() error { return errors.Join(g.rpc.Close(), g.data.Close()) }

// drain is how long calls may take to be answered at the end.
const drain = 5 * time.Second

// Shutdown ends serving: calls that have begun are answered, transfers are cut.
func (g *Gateway) Shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := g.rpc.Shutdown(ctx); err != nil {
		g.log.Info("calls were cut off", "err", err)
	}
	g.data.Close()
}

func port(l net.Listener) uint32 {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return uint32(a.Port)
	}
	return 0
}
