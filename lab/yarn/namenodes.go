package yarn

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"headrace/hdfs"
)

// nameService is the name of a file system with two NameNodes.
const nameService = "cluster"

// nameNodePorts chooses where NameNodes listen.
func (c *config) nameNodePorts() error {
	for i := range c.nameNodes {
		p, err := c.freePorts(c.head, c.rmHost(), "", "rpc-address", "http-address")
		if err != nil {
			return err
		}
		c.nameNodes[i] = p
	}
	return nil
}

// localFS is this machine's, as Hadoop names it.
const localFS = "file:///"

// filesystem is the default one of the cluster.
func (c *config) filesystem() string {
	switch len(c.nameNodes) {
	case 0:
		return orDefault(c.o.DefaultFS, localFS)
	case 1:
		return "hdfs://" + c.nameNodes[0]["rpc-address"]
	}
	return "hdfs://" + nameService
}

// nameDir is where a NameNode keeps what it knows.
func (c *config) nameDir(i int) string { return filepath.Join(c.Dir, fmt.Sprint("name", i)) }

// nameNodeSite is what hdfs-site.xml says of NameNodes.
func (c *config) nameNodeSite() properties {
	p, suffix := properties{}, func(int) string { return "" }
	if len(c.nameNodes) > 1 {
		maps.Copy(p, properties{
			"dfs.nameservices":                                  nameService,
			"dfs.ha.namenodes." + nameService:                   strings.Join(c.nameNodeNames(), ","),
			"dfs.namenode.shared.edits.dir":                     "file://" + filepath.Join(c.Dir, "edits"),
			"dfs.ha.fencing.methods":                            "shell(/bin/true)",
			"dfs.ha.tail-edits.period":                          "1",
			"dfs.blockreport.intervalMsec":                      "3000", // after a failover nothing is deleted before one
			"dfs.client.failover.max.attempts":                  "30",
			"dfs.client.failover.proxy.provider." + nameService: "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
		})
		suffix = func(i int) string { return "." + nameService + "." + nameNodeName(i) }
	}
	for i, at := range c.nameNodes {
		for key, value := range at {
			p["dfs.namenode."+key+suffix(i)] = value
		}
		p["dfs.namenode.name.dir"+suffix(i)] = "file://" + c.nameDir(i)
	}
	return p
}

func nameNodeName(i int) string { return fmt.Sprint("nn", i) }

func (c *config) nameNodeNames() (all []string) {
	for i := range c.nameNodes {
		all = append(all, nameNodeName(i))
	}
	return all
}

// nameNodeURLs are those of all NameNodes by HTTP.
func (c *config) nameNodeURLs() (all []string) {
	for _, n := range c.nameNodes {
		all = append(all, "http://"+n["http-address"])
	}
	return all
}

// nameNode returns a command that runs a NameNode.
func (h *HDFS) nameNode(i int, args ...string) *exec.Cmd {
	if len(h.nameNodes) > 1 {
		args = append([]string{"-Ddfs.ha.namenode.id=" + nameNodeName(i)}, args...)
	}
	return h.javaOfHDFS("server.namenode.NameNode", h.confDir(), args...)
}

// startNameNodes makes the file system and launches those who know it.
func (h *HDFS) startNameNodes(ctx context.Context) (err error) {
	h.processes = make([]*process, len(h.nameNodes))
	if len(h.nameNodes) == 1 { // makes it itself
		cmd := h.javaOfHadoop(h.heapOfHDFS(), "headrace.cluster.NewHdfs", h.confDir(), []string{h.o.Jars.Cluster})
		h.processes[0], err = h.startOnHead("NameNode", h.logFile("namenode0"), cmd)
		return err
	}
	format, err := h.startOnHead("format of HDFS", h.logFile("format"), h.nameNode(0, "-format", "-nonInteractive"))
	if err != nil {
		return err
	}
	if err := format.succeed(ctx); err != nil {
		return err
	}
	for i := range h.nameNodes {
		if i > 0 {
			if err := os.CopyFS(h.nameDir(i), os.DirFS(h.nameDir(0))); err != nil {
				return err
			}
		}
		if err := h.launchNameNode(i); err != nil {
			return err
		}
	}
	return h.MakeActive(ctx, 0)
}

func (h *HDFS) launchNameNode(i int) (err error) {
	h.processes[i], err = h.startOnHead("NameNode", h.logFile(fmt.Sprint("namenode", i)), h.nameNode(i))
	return err
}

// MakeActive has a NameNode take over, or begin if there is one alone, from one that has died
// or that then stands by.
func (h *HDFS) MakeActive(ctx context.Context, i int) error {
	if len(h.nameNodes) == 1 {
		return nil
	}
	args := []string{"-transitionToActive", nameNodeName(i)}
	switch other := h.active; {
	case other == i: // from the start
	case h.processes[other] != nil:
		args = []string{"-failover", nameNodeName(other), nameNodeName(i)}
	default: // it cannot be asked whether it is active
		args = []string{"-transitionToActive", "--forceactive", nameNodeName(i)}
	}
	err := await(ctx, "make "+nameNodeName(i)+" the active NameNode", startTime, func(ctx context.Context) (bool, error) {
		if p := h.processes[i]; p.gone() {
			return false, &fatal{p.problem()}
		}
		err := h.Shell(ctx, 0, append([]string{"haadmin"}, args...)...)
		return err == nil, err
	})
	h.active = i
	return err
}

// URL returns that of the file system, for Hadoop's own clients.
func (h *HDFS) URL() string { return h.filesystem() }

// WebURL returns that of the active NameNode by HTTP. It can be reached from the machines and
// with Transport.
func (h *HDFS) WebURL() string { return h.nameNodeURLs()[h.active] }

// Client returns a client of the file system in this process.
func (h *HDFS) Client() (*hdfs.Client, error) {
	return hdfs.New(hdfs.Options{NameNodes: h.nameNodeURLs(), User: h.User(), Client: &http.Client{Transport: h.Transport()}})
}

// KillNameNode ends the active one with SIGKILL; StopNameNode asks it to end.
func (h *HDFS) KillNameNode() error { return kill(&h.processes[h.active]) }

func (h *HDFS) StopNameNode() error { return stop(&h.processes[h.active]) }

// StartNameNode starts what was ended again and returns when HDFS is as usual.
func (h *HDFS) StartNameNode(ctx context.Context) error {
	for i, p := range h.processes {
		if p == nil {
			if err := h.launchNameNode(i); err != nil {
				return err
			}
		}
	}
	return h.await(ctx)
}
