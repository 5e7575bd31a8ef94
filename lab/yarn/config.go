package yarn

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"headrace/lab/belong"
	"headrace/wire"
)

// properties are those of one of Hadoop's configuration files.
type properties map[string]string

// write makes the file, sorted by name.
func (p properties) write(path string) error {
	var b strings.Builder
	b.WriteString("<configuration>\n")
	for _, name := range slices.Sorted(maps.Keys(p)) {
		b.WriteString("  <property><name>")
		xml.EscapeText(&b, []byte(name))
		b.WriteString("</name><value>")
		xml.EscapeText(&b, []byte(p[name]))
		b.WriteString("</value></property>\n")
	}
	b.WriteString("</configuration>\n")
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// config is how the processes of a cluster are configured, and so where they find the
// daemons that there is one of.
type config struct {
	*installation
	ports     properties   // of the ResourceManager
	nameNodes []properties // where each listens; none without the option HDFS
	manager   string       // its address
	relayed   string       // where node daemons find it, if that is somewhere else
}

// choose chooses addresses, and makes the token of the manager.
func (c *config) choose() (err error) {
	if c.o.HDFS != nil {
		if c.head, err = newHead(); err != nil {
			return err
		}
	}
	if c.ports, err = c.freePorts(c.head, c.rmHost(), "yarn.resourcemanager.", "address", "scheduler.address",
		"resource-tracker.address", "admin.address", "webapp.address"); err != nil {
		return err
	}
	if c.o.HDFS != nil {
		c.nameNodes = make([]properties, 1)
		if c.o.HDFS.Standby {
			c.nameNodes = make([]properties, 2)
		}
		if err := c.nameNodePorts(); err != nil {
			return err
		}
	}
	if !c.o.headrace() {
		return nil
	}
	port, err := c.freePorts(c.head, c.rmHost(), "", "manager")
	if err != nil {
		return err
	}
	c.manager = port["manager"]
	token := make([]byte, 24)
	rand.Read(token)
	for _, file := range []string{c.tokenFile(), c.yarnTokenFile()} {
		if err := os.WriteFile(file, []byte(hex.EncodeToString(token)+"\n"), 0o600); err != nil {
			return err
		}
	}
	return c.giveToUser(c.yarnTokenFile())
}

func (c *config) managerURL() string { return "http://" + c.manager }
func (c *config) tokenFile() string  { return filepath.Join(c.Dir, "token") }

// yarnTokenFile returns the ResourceManager's copy: each copy is for its owner only.
func (c *config) yarnTokenFile() string { return filepath.Join(c.Dir, "token-yarn") }

// writeAll makes the configuration of the ResourceManager, which the clients use too,
// and of each NodeManager.
func (c *config) writeAll(all machines) error {
	if err := c.writeDir(c.confDir(), c.site()); err != nil {
		return err
	}
	for _, m := range all {
		if err := c.writeDir(m.path("conf"), m.site()); err != nil {
			return err
		}
		if c.o.HDFS != nil {
			if err := m.writeHDFS(); err != nil {
				return err
			}
		}
	}
	if err := c.writeAuthority(); err != nil {
		return err
	}
	return c.capacity().write(filepath.Join(c.confDir(), "capacity-scheduler.xml"))
}

func (c *config) writeDir(dir string, site properties) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	core := properties{
		"fs.defaultFS":   c.filesystem(),
		"hadoop.tmp.dir": filepath.Join(c.Dir, "tmp"),
		// A daemon that was started again is soon found.
		"ipc.client.connect.retry.interval": "200",
		"ipc.client.connect.max.retries":    "50",
		// Whoever asks over HTTP is who they say: KillApp needs a user.
		"hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
	}
	files := map[string]properties{"yarn-site.xml": site, "core-site.xml": core, "mapred-site.xml": c.mapred()}
	if c.o.HDFS != nil {
		maps.Copy(core, c.topology())
		files["hdfs-site.xml"] = c.hdfsSite()
	}
	for name, p := range files {
		if err := p.write(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "log4j.properties"), []byte(log4j), 0o644)
}

// log4j has DataNodes say who has read which block in what way.
const log4j = `log4j.rootLogger=INFO,stderr
log4j.logger.http.requests=OFF
log4j.logger.org.apache.hadoop.hdfs.server.datanode.DataNode.clienttrace=DEBUG
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c: %m%n
`

// site is yarn-site.xml without what is different for each NodeManager.
func (c *config) site() properties {
	heartbeat := strconv.FormatInt(c.o.Heartbeat.Milliseconds(), 10)
	p := properties{
		// Application masters find the ResourceManager by the configuration.
		"yarn.application.classpath": c.confDir() + "," + filepath.Join(c.o.Jars.Lib, "*"),

		"yarn.resourcemanager.hostname":                           c.rmHost(),
		"yarn.resourcemanager.bind-host":                          c.rmHost(),
		"yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": heartbeat,
		"yarn.resourcemanager.recovery.enabled":                   "true",
		"yarn.resourcemanager.work-preserving-recovery.enabled":   "true",
		// How long a restarted ResourceManager waits for the nodes before it schedules.
		"yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "1000",
		"yarn.resourcemanager.store.class":                                 "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore",
		"yarn.resourcemanager.fs.state-store.uri":                          "file://" + c.stateStore(),
		// Else all clusters of a machine have the same in /tmp.
		"yarn.node-attribute.fs-store.root-dir":          "file://" + filepath.Join(c.Dir, "node-attributes"),
		"yarn.resourcemanager.connect.retry-interval.ms": "500",

		// By default there are 150, each of which looks every second for something to do.
		"yarn.resourcemanager.client.thread-count":                  "4",
		"yarn.resourcemanager.scheduler.client.thread-count":        "4",
		"yarn.resourcemanager.resource-tracker.client.thread-count": "4",

		"yarn.scheduler.minimum-allocation-mb":  "128",
		"yarn.scheduler.maximum-allocation-mb":  strconv.Itoa(c.o.Memory),
		"yarn.cluster.max-application-priority": "10",

		"yarn.nodemanager.heartbeat.interval-ms":                   heartbeat,
		"yarn.client.application-client-protocol.poll-interval-ms": "100",
		"yarn.client.nodemanager-connect.max-wait-ms":              "60000",
		"yarn.client.nodemanager-connect.retry-interval-ms":        "500",
	}
	c.addScheduler(p)
	maps.Copy(p, c.ports)
	maps.Copy(p, c.o.Properties)
	return p
}

const (
	stockScheduler    = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
	stockPreemption   = "org.apache.hadoop.yarn.server.resourcemanager.monitor.capacity.ProportionalCapacityPreemptionPolicy"
	headraceScheduler = "headrace.yarn.rm.HeadraceScheduler"
	headracePolicy    = "headrace.yarn.rm.HeadracePreemptionPolicy"
	headraceExecutor  = "headrace.yarn.nm.HeadraceContainerExecutor"
	headraceLinux     = "headrace.yarn.nm.HeadraceLinuxContainerExecutor"
	headraceTree      = "headrace.yarn.nm.HeadraceProcessTree"
)

const capacity = "yarn.resourcemanager.monitor.capacity.preemption."

// Preemption is YARN's, made to be quick and to take all that it is entitled to: what the
// cluster is for. Options.Properties may change it.
var Preemption = map[string]string{
	capacity + "monitoring_interval":        "500",
	capacity + "max_wait_before_kill":       "1000",
	capacity + "total_preemption_per_round": "1.0",
	capacity + "natural_termination_factor": "1.0",
	capacity + "max_ignored_over_capacity":  "0.0",
}

// addScheduler configures who schedules and who preempts.
func (c *config) addScheduler(p properties) {
	p["yarn.resourcemanager.scheduler.monitor.enable"] = strconv.FormatBool(c.o.Mode != Wait)
	maps.Copy(p, Preemption)
	if c.o.IntraQueue {
		p[capacity+"intra-queue-preemption.enabled"] = "true"
		p[capacity+"intra-queue-preemption.preemption-order-policy"] = "priority_first"
		p[capacity+"intra-queue-preemption.minimum-threshold"] = "0.0"
		p[capacity+"intra-queue-preemption.max-allowable-limit"] = "1.0"
	}
	p["yarn.resourcemanager.scheduler.class"] = stockScheduler
	p["yarn.resourcemanager.scheduler.monitor.policies"] = stockPreemption
	if c.o.Mode == Headrace {
		p["yarn.resourcemanager.scheduler.class"] = headraceScheduler
		p["yarn.resourcemanager.scheduler.monitor.policies"] = headracePolicy
		p["headrace.manager.url"] = c.managerURL()
		p["headrace.manager.token-file"] = c.yarnTokenFile()
	}
}

// site is yarn-site.xml of the machine's NodeManager.
func (m *machine) site() properties {
	p := m.config.site()
	own := properties{
		"yarn.nodemanager.hostname":                       m.host,
		"yarn.nodemanager.bind-host":                      m.host,
		"yarn.nodemanager.local-dirs":                     m.localDir(),
		"yarn.nodemanager.log-dirs":                       m.at("logs"),
		"yarn.nodemanager.resource.memory-mb":             strconv.Itoa(m.o.Memory),
		"yarn.nodemanager.resource.cpu-vcores":            strconv.Itoa(m.o.VCores),
		"yarn.nodemanager.vmem-check-enabled":             "false",
		"yarn.nodemanager.container-monitor.interval-ms":  "1000",
		"yarn.nodemanager.container-manager.thread-count": "4", // as the ResourceManager's
		// Else YARN leaves it to cgroups to keep the limits on memory.
		"yarn.nodemanager.resource.memory.enforced":   "false",
		"yarn.nodemanager.disk-health-checker.enable": "false",
		// It looks once all the same, and takes no directory on a disk that is fuller than this.
		"yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
		"yarn.nodemanager.env-whitelist":                                                "JAVA_HOME," + belong.Marker,
		"yarn.nodemanager.aux-services":                                                 "mapreduce_shuffle",
		"yarn.nodemanager.aux-services.mapreduce_shuffle.class":                         "org.apache.hadoop.mapred.ShuffleHandler",
		// Containers outlive a NodeManager that is killed.
		"yarn.nodemanager.recovery.enabled":    "true",
		"yarn.nodemanager.recovery.supervised": "true",
		"yarn.nodemanager.recovery.dir":        m.path("recovery"),
		// Logs of containers stay until the cluster is gone.
		"yarn.nodemanager.log.retain-seconds": "86400",
	}
	if m.o.Mode == Headrace {
		own["yarn.nodemanager.container-executor.class"] = headraceExecutor
		own["yarn.nodemanager.container-monitor.process-tree.class"] = headraceTree
		own["headrace.node.socket"] = wire.SocketPath(m.at(stateName))
		// A daemon that is silent for a second because the machine is busy would not know the containers of
		// the next ten, and who waits for them to be suspended would wait for ever.
		own["headrace.node.timeout-ms"] = "30000"
	}
	maps.Copy(p, own)
	maps.Copy(p, m.ports)
	maps.Copy(p, m.o.Properties)
	return p
}

// capacity is capacity-scheduler.xml.
func (c *config) capacity() properties {
	const scheduler, root = "yarn.scheduler.capacity.", "yarn.scheduler.capacity.root."
	p := properties{
		scheduler + "maximum-am-resource-percent": "1.0",
		scheduler + "resource-calculator":         "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator",
	}
	// A place beside the data is worth waiting for: by default some tasks would wait for no
	// rack. More than one round of all nodes cannot be had.
	if c.o.HDFS != nil {
		p[scheduler+"rack-locality-additional-delay"] = "40"
	} else {
		p[scheduler+"node-locality-delay"] = "0"
	}
	var names []string
	for _, q := range c.o.Queues {
		names = append(names, q.Name)
		p[root+q.Name+".capacity"] = strconv.Itoa(q.Capacity)
		p[root+q.Name+".maximum-capacity"] = "100"
		p[root+q.Name+".user-limit-factor"] = "100"
		p[root+q.Name+".ordering-policy"] = "fifo"
	}
	p[root+"queues"] = strings.Join(names, ",")
	return p
}

// mapred is mapred-site.xml, with small JVMs. An archive is of a class path, which begins with it
// and has no directories, so what a container has is behind that.
func (c *config) mapred() properties {
	shared := c.o.Jars.hadoopClasses()
	jvm := func(heap int) string {
		flags := slices.Concat(c.jvmFlags(), shared.flags(), []string{"-cp", strings.Join(append(shared.path, "$CLASSPATH"), ":")})
		return fmt.Sprintf("-Xmx%dm %s", heap, strings.Join(flags, " "))
	}
	return properties{
		"mapreduce.framework.name":                      "yarn",
		"mapreduce.shuffle.port":                        "0",
		"mapreduce.application.classpath":               filepath.Join(c.o.Jars.Lib, "*"),
		"mapreduce.jobhistory.address":                  "",
		"yarn.app.mapreduce.am.staging-dir":             c.staging(),
		"yarn.app.mapreduce.am.resource.mb":             "512",
		"yarn.app.mapreduce.am.command-opts":            jvm(256),
		"mapreduce.map.memory.mb":                       "512",
		"mapreduce.map.java.opts":                       jvm(256),
		"mapreduce.reduce.memory.mb":                    "512",
		"mapreduce.reduce.java.opts":                    jvm(256),
		"mapreduce.task.io.sort.mb":                     "32",
		"mapreduce.client.progressmonitor.pollinterval": "200",
		"mapreduce.job.reduce.slowstart.completedmaps":  "1.0",
	}
}
