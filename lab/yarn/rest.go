package yarn

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// resourceManager is YARN's.
type resourceManager struct {
	*config
	machines machines
	http     *http.Client
	process  *process
}

func (rm *resourceManager) launchRM() (err error) {
	const class = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
	rm.process, err = rm.startOnHead("ResourceManager", rm.logFile("rm"), rm.daemon(class, rm.confDir()))
	return err
}

// KillRM ends the ResourceManager with SIGKILL.
func (rm *resourceManager) KillRM() error { return kill(&rm.process) }

// StartRM starts it again and returns when all NodeManagers that run are back.
func (rm *resourceManager) StartRM(ctx context.Context) error {
	if err := rm.launchRM(); err != nil {
		return err
	}
	return rm.awaitNodes(ctx, rm.machines.running())
}

// awaitNodes returns when so many NodeManagers are registered.
func (rm *resourceManager) awaitNodes(ctx context.Context, want int) error {
	return await(ctx, fmt.Sprintf("wait for %d NodeManagers", want), startTime, func(ctx context.Context) (bool, error) {
		if err := rm.died(); err != nil {
			return false, &fatal{err}
		}
		m, err := rm.Metrics(ctx)
		return err == nil && m.ActiveNodes == want, err
	})
}

// died says which daemon has ended that should run; nil: none.
func (rm *resourceManager) died() error {
	return died(slices.Concat([]*process{rm.process}, rm.machines.nodeManagers(), rm.machines.agents()))
}

// Metrics are those of the whole cluster, as its ResourceManager counts them.
// Memory is in MB.
type Metrics struct {
	ActiveNodes         int   `json:"activeNodes"`
	RunningApps         int   `json:"appsRunning"`
	AllocatedContainers int   `json:"containersAllocated"`
	ReservedContainers  int   `json:"containersReserved"`
	PendingContainers   int   `json:"containersPending"`
	AllocatedMB         int64 `json:"allocatedMB"`
	AvailableMB         int64 `json:"availableMB"`
	ReservedMB          int64 `json:"reservedMB"`
	PendingMB           int64 `json:"pendingMB"`
	TotalMB             int64 `json:"totalMB"`
	AllocatedVCores     int   `json:"allocatedVirtualCores"`
}

// Metrics asks the ResourceManager.
func (rm *resourceManager) Metrics(ctx context.Context) (Metrics, error) {
	var answer struct {
		ClusterMetrics Metrics `json:"clusterMetrics"`
	}
	err := rm.get(ctx, "metrics", &answer)
	return answer.ClusterMetrics, err
}

// QueueUse is what a queue has given out. Memory is in MB.
type QueueUse struct {
	UsedMB     int64
	UsedVCores int
	PendingMB  int64
	ReservedMB int64
	Containers int
	// AMUsedMB is what application masters have.
	AMUsedMB int64
	// Users have what each of them uses, in MB.
	Users map[string]int64
}

type resource struct {
	Memory int64 `json:"memory"`
	VCores int   `json:"vCores"`
}

type queueInfo struct {
	QueueName     string   `json:"queueName"`
	ResourcesUsed resource `json:"resourcesUsed"`
	Pending       int64    `json:"pendingContainers"`
	NumContainers int      `json:"numContainers"`
	Capacities    struct {
		ByPartition []struct {
			PartitionName string `json:"partitionName"`
		} `json:"queueCapacitiesByPartition"`
	} `json:"capacities"`
	Resources struct {
		ByPartition []struct {
			PartitionName string   `json:"partitionName"`
			Used          resource `json:"used"`
			Reserved      resource `json:"reserved"`
			Pending       resource `json:"pending"`
			AMUsed        resource `json:"amUsed"`
		} `json:"resourceUsagesByPartition"`
	} `json:"resources"`
	Users struct {
		User []struct {
			Username      string   `json:"username"`
			ResourcesUsed resource `json:"resourcesUsed"`
		} `json:"user"`
	} `json:"users"`
}

// QueueUse asks the ResourceManager, by queue.
func (rm *resourceManager) QueueUse(ctx context.Context) (map[string]QueueUse, error) {
	var answer struct {
		Scheduler struct {
			Info struct {
				Queues struct {
					Queue []queueInfo `json:"queue"`
				} `json:"queues"`
			} `json:"schedulerInfo"`
		} `json:"scheduler"`
	}
	if err := rm.get(ctx, "scheduler", &answer); err != nil {
		return nil, err
	}
	out := map[string]QueueUse{}
	for _, q := range answer.Scheduler.Info.Queues.Queue {
		use := QueueUse{UsedMB: q.ResourcesUsed.Memory, UsedVCores: q.ResourcesUsed.VCores,
			Containers: q.NumContainers, Users: map[string]int64{}}
		for _, p := range q.Resources.ByPartition {
			use.PendingMB += p.Pending.Memory
			use.ReservedMB += p.Reserved.Memory
			use.AMUsedMB += p.AMUsed.Memory
		}
		for _, u := range q.Users.User {
			use.Users[u.Username] = u.ResourcesUsed.Memory
		}
		out[q.QueueName] = use
	}
	return out, nil
}

// App is an application as the ResourceManager tells of it.
type App struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Queue       string `json:"queue"`
	State       string `json:"state"`
	FinalStatus string `json:"finalStatus"`
	Diagnostics string `json:"diagnostics"`
	// Running is how many containers it has, its master included; -1 when it has
	// ended.
	Running int `json:"runningContainers"`
	// PreemptedMB is what YARN counts as taken away from it.
	PreemptedMB         int64 `json:"preemptedResourceMB"`
	PreemptedContainers int   `json:"numNonAMContainerPreempted"`
	PreemptedMasters    int   `json:"numAMContainerPreempted"`
}

// Ended reports whether nothing of the application runs any more, as far as the
// ResourceManager knows.
func (a App) Ended() bool {
	return a.State == "FINISHED" || a.State == "FAILED" || a.State == "KILLED"
}

// Apps returns all applications.
func (rm *resourceManager) Apps(ctx context.Context) ([]App, error) {
	var answer struct {
		Apps struct {
			App []App `json:"app"`
		} `json:"apps"`
	}
	err := rm.get(ctx, "apps", &answer)
	return answer.Apps.App, err
}

// App returns one application.
func (rm *resourceManager) App(ctx context.Context, id string) (App, error) {
	var answer struct {
		App App `json:"app"`
	}
	err := rm.get(ctx, "apps/"+id, &answer)
	return answer.App, err
}

// KillApp has YARN end an application. It returns when that has begun.
func (rm *resourceManager) KillApp(ctx context.Context, id string) error {
	_, err := rm.call(ctx, http.MethodPut, "apps/"+id+"/state?user.name="+userName(), []byte(`{"state":"KILLED"}`))
	return err
}

func (rm *resourceManager) get(ctx context.Context, path string, answer any) error {
	body, err := rm.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("ask the ResourceManager for %s: %w", path, err)
	}
	return nil
}

func (rm *resourceManager) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	url := "http://" + rm.ports["yarn.resourcemanager.webapp.address"] + "/ws/v1/cluster/" + path
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	resp, err := rm.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the ResourceManager for %s: %w", path, err)
	}
	defer resp.Body.Close()
	const most = 10 << 20
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fmt.Errorf("ask the ResourceManager for %s: %w", path, err)
	}
	if resp.StatusCode >= 300 {
		first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		return nil, fmt.Errorf("ask the ResourceManager for %s: %s: %.300s", path, resp.Status, first)
	}
	return text, nil
}
