package filesystem

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/internal/accounts"
	"headrace/wire"
)

const (
	demoFiles = 12
	demoSize  = 8 << 20 // bytes of each
	demoTime  = 2 * time.Minute
)

func demoVerb(a verbs) *cobra.Command {
	d := demo{verbs: a}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a file system of several nodes on this machine, and kill one",
		Long: `Demo starts several nodes on this machine, each a process with an address of its
own, 127.0.0.11 and so on, writes files by them, kills the one that leads, reads all
files by the others, and has it come back. With --keep they go on until Ctrl-C, for
whoever wants to try more. What they have written is deleted at the end.`,
		Example: `  headrace dfs demo
  headrace dfs demo --nodes 5 --keep`,
		Args:              cli.Takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.count < 3 || d.count > 100 {
				return cli.UsageErrorf("--nodes %d: want 3 to 100", d.count)
			}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&d.count, "nodes", 5, "how `MANY` nodes there are, 3 to 100")
	cmd.Flags().BoolVar(&d.keep, "keep", false, "let them run until Ctrl-C")
	cmd.Flags().BoolVar(&d.anyPorts, "any-ports", false, "take whatever ports are free, and not those of an HDFS")
	return cmd
}

// demo is one that runs.
type demo struct {
	verbs
	count          int
	keep, anyPorts bool

	dir   string
	began time.Time
	nodes []*demoNode
	user  string
	files map[string][]byte
}

// demoNode is a process of it.
type demoNode struct {
	name, address string
	cmd           *exec.Cmd
	log           *os.File
	fs, web       string
}

// tell tells what happens, and when.
func (d *demo) tell(format string, args ...any) {
	fmt.Fprintf(d.Out, "%6.1f s  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context) (err error) {
	u, err := accounts.Here.Self()
	if err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "headrace-dfs-"); err != nil {
		return err
	}
	d.user, d.began, d.files = u.Name, time.Now(), map[string][]byte{}
	defer func() {
		for _, n := range d.nodes {
			n.end(syscall.SIGTERM)
		}
		if gone := os.RemoveAll(d.dir); err == nil {
			err = gone
		}
	}()
	show, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	if err := d.show(show); err != nil || !d.keep {
		return err
	}
	conf := filepath.Join(d.dir, "conf")
	c, err := d.clientsOf(ctx, d.nodes[0].fs, false)
	if err != nil {
		return err
	}
	c.name = "headrace"
	fmt.Fprintln(d.Out, "\nFor Hadoop's clients, until Ctrl-C: HADOOP_CONF_DIR is")
	if err := d.clientConfig(conf, c); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// show is what there is to see.
func (d *demo) show(ctx context.Context) error {
	for i := range d.count {
		n := &demoNode{name: fmt.Sprintf("n%d", i+1), address: fmt.Sprintf("127.0.0.%d", 11+i)}
		d.nodes = append(d.nodes, n)
		if err := d.start(ctx, n); err != nil {
			return err
		}
	}
	r, err := d.await(ctx, func(r *wire.RingResponse) bool { return len(r.Nodes) == d.count && r.Moves == 0 })
	if err != nil {
		return err
	}
	d.tell("%d nodes are one file system, with %d copies of each block", d.count, r.Replicas)
	if err := d.write(ctx, demoFiles); err != nil {
		return err
	}
	d.tell("%d files of %d MB are written, each by another node", demoFiles, demoSize>>20)

	var lost *demoNode
	for _, n := range r.Nodes {
		for _, m := range d.nodes {
			if n.Leads && m.address == n.GetMember().GetHost() {
				lost = m
			}
		}
	}
	if lost == nil {
		return errors.New("nobody leads")
	}
	lost.end(syscall.SIGKILL)
	d.tell("%s, which leads the names, is killed", lost.name)
	if err := d.check(ctx); err != nil {
		return err
	}
	d.tell("all files are read by the others: all bytes are right")
	if err := d.write(ctx, demoFiles/2); err != nil {
		return err
	}
	d.tell("%d more files are written", demoFiles/2)
	if _, err := d.await(ctx, nodeIs(lost, "down")); err != nil {
		return err
	}
	d.tell("%s is taken for down", lost.name)
	if err := d.start(ctx, lost); err != nil {
		return err
	}
	if _, err := d.await(ctx, nodeIs(lost, "up")); err != nil {
		return err
	}
	d.tell("%s is back, and is given what it has missed", lost.name)
	if err := d.check(ctx); err != nil {
		return err
	}
	d.tell("all files are read by all nodes: all bytes are right\n")
	if r, err = d.ring(ctx, d.nodes[0].fs); err != nil {
		return err
	}
	return d.showRing(r)
}

func nodeIs(n *demoNode, state string) func(*wire.RingResponse) bool {
	return func(r *wire.RingResponse) bool {
		for _, m := range r.Nodes {
			if m.GetMember().GetHost() == n.address {
				return m.State == state
			}
		}
		return false
	}
}

// start starts a node, and waits until clients may come.
func (d *demo) start(ctx context.Context, n *demoNode) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"dfs", "start", "--dir", filepath.Join(d.dir, n.name), "--listen", n.address, "--token-file", filepath.Join(d.dir, "token")}
	if d.anyPorts {
		l, err := net.Listen("tcp", n.address+":0") // 0 is none for WebHDFS
		if err != nil {
			return err
		}
		l.Close()
		args = append(args, "--port", "0", "--data-port", "0", "--http-port", fmt.Sprint(portOf(l)), "--peer-port", "0")
	}
	if n != d.nodes[0] {
		r, err := d.ring(ctx, d.nodes[0].fs)
		if err == nil {
			for _, m := range r.Nodes {
				args = append(args, "--join", hostPort(m.GetMember().GetHost(), m.GetMember().GetPeerPort()))
			}
		} else if n.fs == "" { // one that comes back knows the others
			return err
		}
	}
	if n.log, err = os.OpenFile(filepath.Join(d.dir, n.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	n.cmd = exec.Command(program, args...)
	n.cmd.Stderr = n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // Ctrl-C is for this process
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { n.cmd.Process.Kill() })
	defer stop()
	lines := bufio.NewReader(out)
	for _, to := range []*string{&n.fs, &n.web} {
		line, err := lines.ReadString('\n')
		if err != nil {
			n.end(syscall.SIGKILL)
			text, _ := os.ReadFile(n.log.Name())
			return fmt.Errorf("%s does not start: %s", n.name, cli.OneLine(string(text)))
		}
		*to = strings.TrimSpace(line)
	}
	d.tell("%s is at %s and %s", n.name, n.fs, n.web)
	return nil
}

// end signals a node, and waits for its end.
func (n *demoNode) end(s syscall.Signal) {
	if n.cmd == nil {
		return
	}
	n.cmd.Process.Signal(s)
	n.cmd.Wait()
	n.log.Close()
	n.cmd = nil
}

// alive are nodes that run.
func (d *demo) alive() (all []*demoNode) {
	for _, n := range d.nodes {
		if n.cmd != nil {
			all = append(all, n)
		}
	}
	return all
}

// await asks for the ring until it is as it is to be.
func (d *demo) await(ctx context.Context, is func(*wire.RingResponse) bool) (r *wire.RingResponse, err error) {
	for {
		if r, err = d.ring(ctx, d.alive()[0].fs); err == nil && is(r) {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the ring is not as it was to be: %w", errors.Join(ctx.Err(), err))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// write writes files, by one node after the other.
func (d *demo) write(ctx context.Context, n int) error {
	for range n {
		data := make([]byte, demoSize)
		rand.Read(data)
		path := fmt.Sprintf("/demo/file-%d", len(d.files)+1)
		nodes := d.alive()
		if _, err := d.ask(ctx, nodes[len(d.files)%len(nodes)], http.MethodPut, path, "CREATE&replication=3", data); err != nil {
			return err
		}
		d.files[path] = data
	}
	return nil
}

// check reads all files, by one node after the other.
func (d *demo) check(ctx context.Context) error {
	nodes := d.alive()
	i := 0
	for path, data := range d.files {
		got, err := d.ask(ctx, nodes[i%len(nodes)], http.MethodGet, path, "OPEN", nil)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, data) {
			return fmt.Errorf("%s has other bytes than were written", path)
		}
		i++
	}
	return nil
}

// ask asks a node by WebHDFS.
func (d *demo) ask(ctx context.Context, n *demoNode, method, path, op string, body []byte) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, method, n.web+"/webhdfs/v1"+path+"?op="+op+"&user.name="+url.QueryEscape(d.user), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode/100 != 2 {
		err = fmt.Errorf("%s of %s by %s: %s: %s", op, path, n.name, r.Status, b)
	}
	return b, err
}
