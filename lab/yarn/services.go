package yarn

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ServiceJob is a YARN service of one component, whose instances run a line of bash
// until it succeeds.
type ServiceJob struct {
	Name string
	// Queue; empty: default.
	Queue string
	// Containers; 0: 1. Memory of each in MB; 0: 128.
	Containers int
	Memory     int
	// Command may say ${COMPONENT_INSTANCE_NAME}, which conf/task.properties in its
	// working directory says too.
	Command string
}

// Services is what YARN services need beside a cluster: a registry, which is a
// ZooKeeper, and the command that launches them.
type Services struct {
	c    *Cluster
	conf string
}

// Services starts the registry, which ends with the cluster. ctx is only for the
// start.
func (c *Cluster) Services(ctx context.Context) (*Services, error) {
	if _, err := os.Stat(c.o.Jars.Services); err != nil {
		return nil, fmt.Errorf("the framework of YARN services is not there (%s): run make java", c.o.Jars.Services)
	}
	registry, err := c.startZooKeeper(ctx)
	if err != nil {
		return nil, err
	}
	s := &Services{c: c, conf: filepath.Join(c.Dir, "conf-services")}
	site := c.site()
	maps.Copy(site, properties{
		"hadoop.registry.zk.quorum": registry,
		"yarn.service.base.path":    filepath.Join(c.Dir, "services"),
		// The command itself submits, and no server that it would ask to do that.
		"yarn.application.admin.client.class.yarn-service": "org.apache.hadoop.yarn.service.client.ServiceClient",
		// The application master has the class path of the command: nothing is copied.
		"yarn.is.minicluster": "true",
	})
	return s, c.writeDir(s.conf, site)
}

// startZooKeeper returns its address when it listens.
func (c *clients) startZooKeeper(ctx context.Context) (string, error) {
	dir := filepath.Join(c.Dir, "zookeeper")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	ports, err := c.freePorts(c.head, c.rmHost(), "", "zookeeper")
	if err != nil {
		return "", err
	}
	address := ports["zookeeper"]
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	conf := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPortAddress=%s\nclientPort=%s\nadmin.enableServer=false\n", dir, host, port)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return "", err
	}
	run, err := c.start("zookeeper", c.javaOfHadoop(clientHeap, "org.apache.zookeeper.server.ZooKeeperServerMain", c.confDir(), nil, conf))
	if err != nil {
		return "", err
	}
	return address, await(ctx, "wait for ZooKeeper", startTime, func(ctx context.Context) (bool, error) {
		if run.Ended() {
			return false, &fatal{run.client.problem()}
		}
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil, err
	})
}

// Launch starts a service and returns the application's name. The application master
// has a container of 256 MB.
func (s *Services) Launch(ctx context.Context, job ServiceJob) (string, error) {
	definition := filepath.Join(s.c.Dir, job.Name+".json")
	if err := job.write(definition, s.conf); err != nil {
		return "", err
	}
	const class = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
	path := []string{filepath.Join(s.c.o.Jars.Services, "*")}
	run, err := s.c.clients.start(job.Name, s.c.javaOfHadoop(clientHeap, class, s.conf, path, "app", "-launch", job.Name, definition))
	if err != nil {
		return "", err
	}
	if err := run.Succeed(ctx); err != nil {
		return "", err
	}
	return run.ID(ctx)
}

// write makes the definition of the service, whose application master is configured in conf.
func (j ServiceJob) write(path, conf string) error {
	type object map[string]any
	text, err := json.MarshalIndent(object{
		"name": j.Name, "version": "1", "queue": orDefault(j.Queue, "default"),
		"components": []object{{
			"name": "task", "number_of_containers": orDefault(j.Containers, 1), "restart_policy": "ON_FAILURE",
			"launch_command": j.Command,
			"resource":       object{"cpus": 1, "memory": strconv.Itoa(orDefault(j.Memory, 128))},
			"configuration": object{"files": []object{{
				"type": "PROPERTIES", "dest_file": "task.properties",
				"properties": object{"instance": "${COMPONENT_INSTANCE_NAME}"},
			}}},
		}},
		"configuration": object{"properties": object{
			"yarn.service.am-resource.memory":               "256",
			"yarn.service.am.java.opts":                     fmt.Sprintf("-Xmx%dm %s", clientHeap, strings.Join(append(slices.Clone(smallJVM), logAs(conf)), " ")),
			"yarn.service.readiness-check-interval.seconds": "1",
		}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// MasterLog returns what the application master of a service has logged so far.
func (s *Services) MasterLog(app string) (string, error) {
	logs, err := s.c.ContainerLogs(app)
	for name, text := range logs {
		if strings.HasSuffix(name, "/serviceam-err.txt") {
			return text, err
		}
	}
	return "", err
}
