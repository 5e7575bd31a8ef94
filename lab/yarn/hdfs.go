package yarn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// HDFSOptions describes the HDFS of a cluster. The zero value is Hadoop's default: three
// replicas, blocks of 128 MB, and readers that get them from DataNodes by a socket.
type HDFSOptions struct {
	// Replication of files, unless who makes one says otherwise; 0: 3.
	Replication int
	// BlockSize of files, unless who makes one says otherwise; 0: 128 MB.
	BlockSize int64
	// ShortCircuit lets readers on a DataNode's machine get its open files and read
	// them themselves.
	ShortCircuit bool
	// Cache is how many bytes each DataNode may lock in memory for directives of HDFS's own
	// cache (Submitter.Cache); 0: there is none. It takes CAP_IPC_LOCK.
	Cache int64
	// Standby adds a second NameNode, which takes over when it is told to (MakeActive).
	Standby bool
	// Volumes that each DataNode has, on the machine's one disk; 0: 1.
	Volumes int
	// Racks that the machines are spread over, one after the other; 0: 1.
	Racks int
	// Absent leaves out its daemons: what is left is what the cluster would have for it, networks, disks
	// and the configuration of clients.
	Absent bool
	// Properties are added to hdfs-site.xml, or replace those there.
	Properties map[string]string
}

func (h *HDFSOptions) complete(o *Options) error {
	h.Replication = orDefault(h.Replication, 3)
	h.BlockSize = orDefault(h.BlockSize, 128<<20)
	h.Racks = orDefault(h.Racks, 1)
	h.Volumes = orDefault(h.Volumes, 1)
	if h.ShortCircuit && o.Jars.Native == "" {
		return errors.New("short-circuit reads take Hadoop's native library, which is not there for this kind of processor")
	}
	if h.Cache > 0 && o.Jars.Native == "" {
		return errors.New("HDFS's cache takes Hadoop's native library, which is not there for this kind of processor")
	}
	return nil
}

// HDFS is that of a cluster with the option.
type HDFS struct {
	*config
	machines  machines
	http      *http.Client
	processes []*process // the NameNodes, nil where one was killed
	active    int        // which of them is to be asked
	shells    map[int]*hadoopShell
}

// socketName is a machine's directory for the socket by which DataNodes give away open
// files.
const socketName = "socket"

// socketDir returns where each machine of the cluster in dir sees that directory: Hadoop
// wants nobody else to be able to write to any of those above it, so /tmp is none of them.
func socketDir(dir string) string { return filepath.Join("/run", filepath.Base(dir)) }

// prepare makes what must be there before the machines are made.
func (h *HDFS) prepare() error {
	if !h.o.HDFS.ShortCircuit {
		return nil
	}
	return os.Mkdir(socketDir(h.Dir), 0o755)
}

// staging is where MapReduce puts what jobs need, in the default file system.
func (c *config) staging() string {
	if c.filesystem() == localFS {
		return filepath.Join(c.Dir, "staging")
	}
	return "/staging"
}

// topology tells who is in which rack, for core-site.xml.
func (c *config) topology() properties {
	return properties{
		"net.topology.node.switch.mapping.impl": "org.apache.hadoop.net.TableMapping",
		"net.topology.table.file.name":          c.rackTable(),
	}
}

func (c *config) rackTable() string { return filepath.Join(c.Dir, "racks") }

// hdfsSite is hdfs-site.xml without what is different for each DataNode.
func (c *config) hdfsSite() properties {
	o := c.o.HDFS
	p := properties{
		"dfs.namenode.safemode.extension":       "0",
		"dfs.namenode.fs-limits.min-block-size": "4096",
		"dfs.replication":                       strconv.Itoa(o.Replication),
		"dfs.blocksize":                         strconv.FormatInt(o.BlockSize, 10),
		"dfs.client.read.shortcircuit":          strconv.FormatBool(o.ShortCircuit),
		// Nobody can look up the names of the addresses.
		"dfs.namenode.datanode.registration.ip-hostname-check": "false",
		// What has died is soon known to be dead, after 14 s, and made up for.
		"dfs.heartbeat.interval":                   "1",
		"dfs.namenode.heartbeat.recheck-interval":  "2000",
		"dfs.namenode.redundancy.interval.seconds": "1",
		// It would read disks beside what is measured.
		"dfs.datanode.scan.period.hours": "-1",
	}
	if o.ShortCircuit {
		p["dfs.domain.socket.path"] = filepath.Join(socketDir(c.Dir), "datanode")
	}
	if o.Cache > 0 {
		maps.Copy(p, properties{
			"dfs.datanode.max.locked.memory": strconv.FormatInt(o.Cache, 10),
			// What was asked for is told with the next heartbeat, and not up to half a minute later.
			"dfs.namenode.path.based.cache.refresh.interval.ms": "1000",
			"dfs.cachereport.intervalMsec":                      "1000",
		})
	}
	maps.Copy(p, c.nameNodeSite())
	maps.Copy(p, o.Properties)
	return p
}

// writeHDFS adds to the machine's configuration what its DataNode needs.
func (m *machine) writeHDFS() error {
	p := m.hdfsSite()
	maps.Copy(p, properties{"dfs.datanode.data.dir": strings.Join(m.dataDirs(), ","), "dfs.datanode.hostname": m.host})
	maps.Copy(p, m.dataPorts)
	maps.Copy(p, m.o.HDFS.Properties)
	return errors.Join(p.write(m.hdfsSiteFile()), makeWebApps(m.path("conf")))
}

func (m *machine) hdfsSiteFile() string { return filepath.Join(m.path("conf"), "hdfs-site.xml") }

// dataDirs are where the machine's DataNode keeps blocks, as the machine sees them.
func (m *machine) dataDirs() (all []string) {
	for i := range m.o.HDFS.Volumes {
		all = append(all, m.at(filepath.Join(diskName, fmt.Sprint("dfs", i))))
	}
	return all
}

// makeWebApps makes directories for the pages of the daemons, which are not in the jar:
// without directories nothing starts.
func makeWebApps(conf string) error {
	var errs []error
	for _, name := range []string{"hdfs", "datanode", "static"} {
		errs = append(errs, os.MkdirAll(filepath.Join(conf, "webapps", name), 0o755))
	}
	return errors.Join(errs...)
}

// javaOfHDFS returns a command that runs a daemon of it, or a tool.
func (s *installation) javaOfHDFS(class, conf string, args ...string) *exec.Cmd {
	return s.javaOfHadoop(s.heapOfHDFS(), "org.apache.hadoop.hdfs."+class, conf, nil, args...)
}

// heapOfHDFS is that of each, in MB.
func (s *installation) heapOfHDFS() int {
	if s.o.Compiled {
		return compiledHeap
	}
	return daemonHeap
}

// start makes the file system and returns when it can be used.
func (h *HDFS) start(ctx context.Context) error {
	var racks strings.Builder
	for _, m := range h.machines {
		fmt.Fprintf(&racks, "%s /rack%d\n", m.host, m.index%h.o.HDFS.Racks)
	}
	err := errors.Join(os.WriteFile(h.rackTable(), []byte(racks.String()), 0o644), makeWebApps(h.confDir()))
	if err != nil {
		return err
	}
	if err := h.startNameNodes(ctx); err != nil {
		return err
	}
	for _, m := range h.machines {
		if err := m.launchDataNode(); err != nil {
			return err
		}
	}
	return h.await(ctx)
}

func (m *machine) launchDataNode() (err error) {
	cmd := m.javaOfHDFS("server.datanode.DataNode", m.path("conf"))
	if m.o.HDFS.Cache > 0 {
		cmd = m.javaOfHadoop(daemonHeap, "headrace.cluster.CachingDataNode", m.path("conf"), []string{m.o.Jars.Cluster})
	}
	m.dataNode, err = m.runReader("DataNode", fmt.Sprint("datanode", m.index), cmd)
	return err
}

// await returns when the NameNode takes changes and all DataNodes that run have told it
// what they have.
func (h *HDFS) await(ctx context.Context) error {
	return await(ctx, "wait for HDFS", startTime, func(ctx context.Context) (bool, error) {
		all := append(h.machines.dataNodes(), h.processes...)
		if err := died(all); err != nil {
			return false, &fatal{err}
		}
		s, err := h.State(ctx)
		if err != nil {
			return false, err
		}
		want := 0
		for _, m := range h.machines {
			if m.dataNode != nil {
				want++
			}
		}
		if s.FSState != "Operational" || s.NumLiveDataNodes < want || s.NumStaleStorages > 0 {
			return false, fmt.Errorf("%+v", s)
		}
		return true, nil
	})
}

// State is what the NameNode counts.
type State struct {
	FSState               string // Operational, or safeMode
	NumLiveDataNodes      int
	NumDeadDataNodes      int
	BlocksTotal           int64
	UnderReplicatedBlocks int64
	// NumStaleStorages have not told yet what they have since the NameNode started.
	NumStaleStorages int
}

// State asks the NameNode.
func (h *HDFS) State(ctx context.Context) (State, error) {
	return bean[State](ctx, h, "FSNamesystemState")
}

// Cached returns how many bytes the DataNodes hold for directives of HDFS's own cache.
func (h *HDFS) Cached(ctx context.Context) (int64, error) {
	info, err := bean[struct{ CacheUsed int64 }](ctx, h, "NameNodeInfo")
	return info.CacheUsed, err
}

// bean asks the NameNode for one of the things that it tells of itself.
func bean[T any](ctx context.Context, h *HDFS, name string) (found T, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.WebURL()+"/jmx?qry=Hadoop:service=NameNode,name="+name, nil)
	if err != nil {
		return found, err
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return found, err
	}
	defer resp.Body.Close()
	var answer struct{ Beans []T }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Beans) == 0 {
		return found, fmt.Errorf("ask the NameNode for its %s: %s, %w", name, resp.Status, errors.Join(err))
	}
	return answer.Beans[0], nil
}

// User returns the superuser, who also runs the jobs.
func (h *HDFS) User() string { return orDefault(h.o.User, userName()) }

// KillDataNode ends that of machine i with SIGKILL; StopDataNode asks it to end.
func (h *HDFS) KillDataNode(i int) error { return kill(&h.machines[i].dataNode) }

func (h *HDFS) StopDataNode(i int) error { return stop(&h.machines[i].dataNode) }

// StartDataNode starts it again and returns when the NameNode knows of its blocks.
func (h *HDFS) StartDataNode(ctx context.Context, i int) error {
	before := logSize(h.logFile(fmt.Sprint("datanode", i)))
	if err := h.machines[i].launchDataNode(); err != nil {
		return err
	}
	return await(ctx, "wait for the DataNode", startTime, func(ctx context.Context) (bool, error) {
		p := h.machines[i].dataNode
		if p.gone() {
			return false, &fatal{p.problem()}
		}
		return logHas(p.log, before, "Successfully sent block report"), nil
	})
}
