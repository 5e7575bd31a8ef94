package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/wire"
)

// Config says what is served, and as what.
type Config struct {
	Node *dfs.Node
	// Host is the address by which clients reach this node: an IP address.
	Host string
	// WebPort is where WebHDFS is served by this node; 0: nowhere.
	WebPort int
	// Groups returns the groups of a user; nil asks this machine.
	Groups func(user string) []string
	// Trust: see dfs.Callers.
	Trust bool
	// Pass has a call answered that only the node which leads can answer: by here when that is this node. nil: it is.
	Pass Pass
	// Heard returns for how long another node was not heard, and false when it never was. nil: there is no other.
	Heard func(node string) (silent time.Duration, ok bool)
	// Understands returns the version that a node has said it understands since this one leads, and false if it has not. nil: there is no other.
	Understands func(node string) (version uint32, ok bool)
	Log         *slog.Logger
}

// A Pass has a call answered where the names are led, which here does when they are led on this node.
type Pass func(ctx context.Context, c *ipc.Call, here *ipc.Service) (proto.Message, error)

// A Gateway serves a node to clients.
type Gateway struct {
	// Led are the protocols, by their names, whose calls only the node that leads answers, whoever got them.
	Led map[string]*ipc.Service

	node  *dfs.Node
	log   *slog.Logger
	host  string
	heard func(string) (time.Duration, bool)
	says  func(string) (uint32, bool)
	// Of the listeners: clients are told of them.
	rpcPort, dataPort, webPort uint32

	began    time.Time
	measures measures
	looking  sync.Mutex

	// limiting has one while a directive is added to a cache pool, or moved to one, that has a limit.
	limiting chan struct{}

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
	g := &Gateway{node: c.Node, host: c.Host, webPort: uint32(c.WebPort), heard: c.Heard, says: c.Understands, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)), callers: dfs.Callers{Node: c.Node, Groups: c.Groups, Trust: c.Trust},
		tokens: c.Node.Tokens(), began: time.Now(), measures: newMeasures(), limiting: make(chan struct{}, 1)}
	serve := func(d protoreflect.FileDescriptor, methods ...table) *ipc.Service {
		return g.service(d.Services().Get(0), methods...)
	}
	g.Led = map[string]*ipc.Service{
		"org.apache.hadoop.hdfs.protocol.ClientProtocol": serve(pb.File_ClientNamenodeProtocol_proto, names, look, write, attributes, cache, admin, absent, refused),
		RingProtocol: g.service(wire.File_dfsring_proto.Services().ByName("RingAdmin"), ringAdmin),
	}
	// Hadoop's client asks a data node for the length of a block in the name of the block.
	g.rpc = ipc.Server{Log: g.log, Prove: g.callers.Prove, Unproved: map[string]bool{dataNodeProtocol: true}, Limits: ipc.Limits{Frame: mostRequest}, Protocols: map[string]ipc.Handler{
		dataNodeProtocol:                                  serve(pb.File_ClientDatanodeProtocol_proto, dataNode),
		"org.apache.hadoop.ha.HAServiceProtocol":          serve(pb.File_HAServiceProtocol_proto, available),
		"org.apache.hadoop.tools.GetUserMappingsProtocol": serve(pb.File_GetUserMappingsProtocol_proto, mappings),
	}}
	local := wire.File_dfsblocks_proto.Services().ByName("LocalBlocks")
	extents := g.service(local, localBlocks)
	g.rpc.Protocols[string(local.FullName())] = ipc.HandlerFunc(func(ctx context.Context, in *ipc.Call) (proto.Message, error) {
		if err := g.callers.ProveOwn(in.Remote, in.Local); err != nil {
			return nil, ipc.Throw(ipc.ClassAccess, "%s", err)
		}
		return extents.Serve(ctx, in)
	})
	for name, here := range g.Led {
		here.Enter = g.rpc.Enter
		g.rpc.Protocols[name] = ipc.HandlerFunc(func(ctx context.Context, in *ipc.Call) (proto.Message, error) {
			if name == RingProtocol && in.Method != asksOnly {
				if err := g.callers.ProveHere(cmp.Or(in.User.Real, in.User.Name), in.Remote, in.Local); err != nil {
					return nil, ipc.Throw(ipc.ClassAccess, "%s", err)
				}
			}
			if c.Pass == nil || anywhere[in.Method] {
				return here.Serve(ctx, in)
			}
			return c.Pass(ctx, in, here)
		})
	}
	g.data = xfer.Server{Log: g.log, Store: &replicas{g.node, g.measures.bytes.WithLabelValues("read"), g.measures.bytes.WithLabelValues("written")}, Verify: true,
		Check: func(_ context.Context, a xfer.Access) error { return g.tokens.Check(a) },
		Issue: func(b xfer.Block) *pb.TokenProto { return g.tokens.Issue(b.ID, pb.AccessModeProto_REPLACE, "") }, Dial: g.dial}
	return g
}

// dial connects to the data transfer of another node. Addresses come from clients: anywhere else bytes and tokens would go to strangers.
func (g *Gateway) dial(ctx context.Context, address string) (net.Conn, error) {
	for _, m := range g.node.View().Members {
		if m.DataAddress() == address {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}
	}
	return nil, fmt.Errorf("%.64q is no node's address", address)
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
