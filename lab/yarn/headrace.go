package yarn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"headrace/internal/linux"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// headraceDaemons are those of Headrace: the manager, and a node daemon on each machine.
type headraceDaemons struct {
	*config
	machines machines
	process  *process // the manager's
	relay    *relay   // nil without the option CountTraffic
}

// Use is what daemons of Headrace that run have used since they were started.
type Use struct {
	// Manager and Nodes are processor time; that of a node daemon has what it watches, but
	// what the kernel counts for it is on the account of whoever reads.
	Manager time.Duration
	Nodes   []time.Duration
	// Traffic between the node daemons and the manager in bytes, both ways, with the option
	// CountTraffic; of this cluster so far.
	Traffic int64
}

// Use asks the kernel.
func (h *headraceDaemons) Use() (u Use, err error) {
	of := func(p *process) time.Duration {
		st, e := linux.ProcFS("").Stat(p.cmd.Process.Pid)
		err = errors.Join(err, e)
		return st.User + st.System
	}
	u.Manager = of(h.process)
	for _, m := range h.machines {
		u.Nodes = append(u.Nodes, of(m.agent))
	}
	if h.relay != nil {
		u.Traffic = h.relay.bytes.Load()
	}
	return u, err
}

// countTraffic puts a relay before the manager.
func (h *headraceDaemons) countTraffic() error {
	return h.head.do(func() error {
		l, err := net.Listen("tcp", net.JoinHostPort(h.rmHost(), "0"))
		if err != nil {
			return err
		}
		h.relayed = l.Addr().String()
		h.relay = startRelay(l, func() (net.Conn, error) { return h.head.dial(context.Background(), "tcp", h.manager) })
		return nil
	})
}

// StartDaemons starts the manager and the node daemons of a cluster that was started
// without them, and returns when all have joined. flags are added to the command line
// of each node daemon; nil: none.
func (h *headraceDaemons) StartDaemons(ctx context.Context, policy string, flags func(node int) []string) error {
	h.o.Policy = policy
	for _, m := range h.machines {
		m.flags = nil
		if flags != nil {
			m.flags = flags(m.index)
		}
	}
	return h.startDaemons(ctx)
}

func (h *headraceDaemons) startDaemons(ctx context.Context) error {
	if err := h.StartManager(ctx); err != nil {
		return err
	}
	for _, m := range h.machines {
		if err := m.launchAgent(); err != nil {
			return err
		}
	}
	return h.awaitJoined(ctx, h.machines...)
}

// StopDaemons ends them in good order, so that they may be started otherwise. No
// container should be running.
func (h *headraceDaemons) StopDaemons() (err error) {
	for _, m := range h.machines {
		err = errors.Join(err, stop(&m.agent))
	}
	err = errors.Join(err, stop(&h.process))
	for _, m := range h.machines {
		err = errors.Join(err, stop(&m.fs))
	}
	return err
}

// daemons returns all of them, nil where one was killed or stopped.
func (h *headraceDaemons) daemons() []*process {
	return append(append(h.machines.agents(), h.process), h.machines.fileSystems()...)
}

// StartManager starts headrace manager and returns when it answers.
func (h *headraceDaemons) StartManager(ctx context.Context) (err error) {
	args := []string{"manager", "--listen", h.manager, "--token-file", h.tokenFile()}
	if h.o.Policy != "" {
		args = append(args, "--policy", h.o.Policy)
	}
	if h.o.HDFS != nil {
		args = append(args, "--hdfs", strings.Join(h.nameNodeURLs(), ","))
	}
	cmd := h.command(h.o.Binary, append(args, h.o.ManagerFlags...))
	if h.process, err = h.startOnHead("headrace manager", h.logFile("headrace-manager"), cmd); err != nil {
		return err
	}
	return await(ctx, "wait for the manager", startTime, func(ctx context.Context) (bool, error) {
		if h.process.gone() {
			return false, &fatal{h.process.problem()}
		}
		_, err := h.Manager().Nodes(ctx, &wire.NodesRequest{})
		return err == nil, err
	})
}

// KillManager ends it with SIGKILL.
func (h *headraceDaemons) KillManager() error { return kill(&h.process) }

// StartNode starts the node daemon beside NodeManager i, and returns when it has
// joined the manager.
func (h *headraceDaemons) StartNode(ctx context.Context, i int) error {
	if err := h.machines[i].launchAgent(); err != nil {
		return err
	}
	return h.awaitJoined(ctx, h.machines[i])
}

// awaitJoined returns when the node daemons of machines have joined the manager.
func (h *headraceDaemons) awaitJoined(ctx context.Context, all ...*machine) error {
	return await(ctx, fmt.Sprintf("wait for %d nodes to join the manager", len(all)), startTime, func(ctx context.Context) (bool, error) {
		if err := died(machines(all).agents()); err != nil {
			return false, &fatal{err}
		}
		answer, err := h.Manager().Nodes(ctx, &wire.NodesRequest{})
		if err != nil {
			return false, err
		}
		here := map[string]bool{}
		for _, n := range answer.Nodes {
			here[n.Name] = n.AwayMs == 0
		}
		return !slices.ContainsFunc(all, func(m *machine) bool { return !here[m.host] }), nil
	})
}

// Manager returns a client of the manager, with the cluster's token.
func (h *headraceDaemons) Manager() wireconnect.ManagerServiceClient {
	return wireconnect.NewManagerServiceClient(h.client(), h.managerURL())
}

// Inputs returns a client of what the manager knows of files, with the cluster's token.
func (h *headraceDaemons) Inputs() wireconnect.InputServiceClient {
	return wireconnect.NewInputServiceClient(h.client(), h.managerURL())
}

func (h *headraceDaemons) client() *http.Client {
	token, _ := os.ReadFile(h.tokenFile())
	return &http.Client{Timeout: 40 * time.Second, Transport: withToken{string(token), h.Transport()}}
}

// withToken is a transport that presents a token.
type withToken struct {
	token string
	http.RoundTripper
}

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(t.token))
	return t.RoundTripper.RoundTrip(r)
}
