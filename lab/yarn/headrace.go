package yarn

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"headrace/internal/crash"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// manager is headrace manager.
type manager struct {
	address string
	process *process
}

// stateName is the state directory of a node daemon among its node's.
const stateName = "headrace"

// newManager chooses the manager's address and makes the cluster's token.
func (c *Cluster) newManager() error {
	if c.o.Mode != Headrace {
		return nil
	}
	port, err := freePorts(c.rmHost(), "", "manager")
	if err != nil {
		return err
	}
	c.manager = &manager{address: port["manager"]}
	token := make([]byte, 24)
	rand.Read(token)
	for _, file := range []string{c.tokenFile(), c.yarnTokenFile()} {
		if err := os.WriteFile(file, []byte(hex.EncodeToString(token)+"\n"), 0o600); err != nil {
			return err
		}
	}
	return c.giveToUser(c.yarnTokenFile())
}

func (c *Cluster) managerURL() string { return "http://" + c.manager.address }
func (c *Cluster) tokenFile() string  { return filepath.Join(c.Dir, "token") }

// yarnTokenFile is the ResourceManager's copy: each copy is for its owner only.
func (c *Cluster) yarnTokenFile() string { return filepath.Join(c.Dir, "token-yarn") }

func (n *node) stateDir() string { return n.path(stateName) }
func (n *node) socket() string   { return wire.SocketPath(n.stateDir()) }

// startHeadrace starts the manager and all node daemons.
func (c *Cluster) startHeadrace(ctx context.Context) error {
	if err := c.StartManager(ctx); err != nil {
		return err
	}
	for i := range c.nodes {
		if err := c.launchNode(i); err != nil {
			return err
		}
	}
	return c.awaitJoined(ctx, len(c.nodes))
}

// StartManager starts headrace manager and returns when it answers.
func (c *Cluster) StartManager(ctx context.Context) (err error) {
	args := []string{"manager", "--listen", c.manager.address, "--token-file", c.tokenFile()}
	if c.o.Policy != "" {
		args = append(args, "--policy", c.o.Policy)
	}
	if c.manager.process, err = c.headrace("manager", append(args, c.o.ManagerFlags...), ""); err != nil {
		return err
	}
	return await(ctx, "wait for the manager", startTime, func(ctx context.Context) (bool, error) {
		if c.manager.process.gone() {
			return false, &fatal{c.manager.process.problem()}
		}
		_, err := c.Manager().Nodes(ctx, &wire.NodesRequest{})
		return err == nil, err
	})
}

// KillManager ends it with SIGKILL.
func (c *Cluster) KillManager() error {
	err := c.manager.process.kill()
	c.manager.process = nil
	return err
}

// StartNode starts the node daemon beside NodeManager i, and returns when it has
// joined the manager.
func (c *Cluster) StartNode(ctx context.Context, i int) error {
	if err := c.launchNode(i); err != nil {
		return err
	}
	return c.awaitHere(ctx, i)
}

// KillNode ends it with SIGKILL.
func (c *Cluster) KillNode(i int) error {
	err := c.nodes[i].agent.kill()
	c.nodes[i].agent = nil
	return err
}

func (c *Cluster) launchNode(i int) (err error) {
	n := c.nodes[i]
	args := []string{"node", "--config=", "--manager", c.managerURL(), "--token-file", c.tokenFile(), "--name", n.host,
		"--state-dir", n.at(stateName)}
	if c.o.User != "" {
		args = append(args, "--operator", c.o.User)
	}
	return n.machine.do(func() error {
		n.agent, err = c.headrace(fmt.Sprint("node", i), slices.Concat(args, c.o.NodeFlags, n.flags), n.dies)
		return err
	})
}

// headrace starts a daemon of Headrace, which dies at a crash point; empty: at none.
func (c *Cluster) headrace(name string, args []string, dies string) (*process, error) {
	cmd := c.command(c.o.Binary, args)
	if dies != "" {
		cmd.Env = append(cmd.Env, crash.Env+"="+dies)
	}
	return startProcess("headrace "+name, c.logFile("headrace-"+name), cmd)
}

// awaitJoined returns when so many nodes have joined the manager.
func (c *Cluster) awaitJoined(ctx context.Context, want int) error {
	return await(ctx, fmt.Sprintf("wait for %d nodes to join the manager", want), startTime, func(ctx context.Context) (bool, error) {
		if err := c.died(); err != nil {
			return false, &fatal{err}
		}
		answer, err := c.Manager().Nodes(ctx, &wire.NodesRequest{})
		if err != nil {
			return false, err
		}
		here := 0
		for _, n := range answer.Nodes {
			if n.AwayMs == 0 {
				here++
			}
		}
		return here >= want, nil
	})
}

func (c *Cluster) awaitHere(ctx context.Context, i int) error {
	return await(ctx, "wait for the node to join the manager", startTime, func(ctx context.Context) (bool, error) {
		if p := c.nodes[i].agent; p.gone() {
			return false, &fatal{p.problem()}
		}
		answer, err := c.Manager().Nodes(ctx, &wire.NodesRequest{})
		if err != nil {
			return false, err
		}
		for _, n := range answer.Nodes {
			if n.Name == c.nodes[i].host {
				return n.AwayMs == 0, nil
			}
		}
		return false, nil
	})
}

// Manager is a client of the manager, with the cluster's token.
func (c *Cluster) Manager() wireconnect.ManagerServiceClient {
	token, _ := os.ReadFile(c.tokenFile())
	client := &http.Client{Timeout: 40 * time.Second, Transport: withToken(string(token))}
	return wireconnect.NewManagerServiceClient(client, c.managerURL())
}

// withToken is a transport that presents a token. It keeps no connections, so that
// there is nothing to close.
type withToken string

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+trimmed(string(t)))
	r.Close = true
	return http.DefaultTransport.RoundTrip(r)
}

// Tasks are the tasks of the node daemon beside NodeManager i, those that have ended
// too.
func (c *Cluster) Tasks(ctx context.Context, i int) ([]*wire.Task, error) {
	client := wire.NewHTTPClient(c.nodes[i].socket())
	defer client.CloseIdleConnections()
	answer, err := wireconnect.NewTaskServiceClient(client, wire.BaseURL).List(ctx, &wire.ListRequest{All: true})
	if err != nil {
		return nil, err
	}
	return answer.Tasks, nil
}

// AwaitTasks returns when the tasks of all nodes together satisfy ok; what says for
// an error message what was waited for.
func (c *Cluster) AwaitTasks(ctx context.Context, what string, limit time.Duration, ok func([]*wire.Task) bool) error {
	var last []*wire.Task
	err := await(ctx, "wait for "+what, limit, func(ctx context.Context) (bool, error) {
		var all []*wire.Task
		for i := range c.nodes {
			tasks, err := c.Tasks(ctx, i)
			if err != nil {
				return false, err
			}
			all = append(all, tasks...)
		}
		last = all
		return ok(all), nil
	})
	if err == nil {
		return nil
	}
	for _, t := range last {
		err = errors.Join(err, fmt.Errorf("%s: %s %s (%s)", t.Id, t.State, t.Doing, t.Reason))
	}
	return err
}
