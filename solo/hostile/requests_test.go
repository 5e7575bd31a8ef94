package hostile

import (
	"path/filepath"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace/wire"
)

// requests say for each request of the protocol what one of the attacker's own
// looks like that is as good as right; then field after field is made hostile. Keys
// are full names. One that is missing makes the test fail.
var requests = map[protoreflect.FullName]func(a *attacker) proto.Message{
	"headrace.v1.TaskService.Run":        func(a *attacker) proto.Message { return a.command("true") },
	"headrace.v1.TaskService.Get":        func(a *attacker) proto.Message { return &wire.GetRequest{Id: a.task} },
	"headrace.v1.TaskService.List":       func(a *attacker) proto.Message { return &wire.ListRequest{All: true} },
	"headrace.v1.TaskService.Watch":      func(a *attacker) proto.Message { return &wire.WatchRequest{Id: a.task} },
	"headrace.v1.TaskService.Logs":       func(a *attacker) proto.Message { return &wire.LogsRequest{Id: a.task} },
	"headrace.v1.TaskService.Suspend":    verbOn,
	"headrace.v1.TaskService.Resume":     verbOn,
	"headrace.v1.TaskService.Checkpoint": verbOn,
	"headrace.v1.TaskService.Restore":    verbOn,
	"headrace.v1.TaskService.Kill":       verbOn,
	"headrace.v1.TaskService.Forget":     verbOn,

	"headrace.v1.DataService.Warm": func(a *attacker) proto.Message {
		return &wire.WarmRequest{Paths: []string{filepath.Join(a.Home, "mine")}}
	},
	"headrace.v1.DataService.WatchWarm": func(a *attacker) proto.Message { return &wire.WatchWarmRequest{Id: "w1"} },
	"headrace.v1.DataService.ListWarm":  func(a *attacker) proto.Message { return &wire.ListWarmRequest{} },
	"headrace.v1.DataService.Evict":     func(a *attacker) proto.Message { return &wire.EvictRequest{} },
	"headrace.v1.DataService.Cache": func(a *attacker) proto.Message {
		return &wire.CacheRequest{Paths: []string{filepath.Join(a.Home, "mine")}}
	},
	"headrace.v1.DataService.Disks": func(a *attacker) proto.Message { return &wire.DisksRequest{Interval: 0.1} },

	"headrace.v1.HostService.Prepare": func(a *attacker) proto.Message {
		return &wire.PrepareRequest{}
	},
	"headrace.v1.HostService.Application": func(a *attacker) proto.Message { return &wire.ApplicationRequest{} },

	"headrace.v1.NodeService.Info": func(a *attacker) proto.Message { return &wire.InfoRequest{} },

	// The manager's need its token, which the attacker does not have.
	"headrace.v1.ManagerService.Join":       func(a *attacker) proto.Message { return &wire.JoinRequest{} },
	"headrace.v1.ManagerService.Report":     func(a *attacker) proto.Message { return &wire.NodeReport{} },
	"headrace.v1.ManagerService.Preempt":    func(a *attacker) proto.Message { return &wire.PreemptRequest{} },
	"headrace.v1.ManagerService.Price":      func(a *attacker) proto.Message { return &wire.PriceRequest{} },
	"headrace.v1.ManagerService.Resume":     func(a *attacker) proto.Message { return &wire.ResumeRequest{} },
	"headrace.v1.ManagerService.Release":    func(a *attacker) proto.Message { return &wire.ReleaseRequest{} },
	"headrace.v1.ManagerService.Containers": func(a *attacker) proto.Message { return &wire.ContainersRequest{} },
	"headrace.v1.ManagerService.Drain":      func(a *attacker) proto.Message { return &wire.DrainRequest{} },
	"headrace.v1.ManagerService.Forget":     func(a *attacker) proto.Message { return &wire.ForgetNodeRequest{} },
	"headrace.v1.ManagerService.Nodes":      func(a *attacker) proto.Message { return &wire.NodesRequest{} },
	"headrace.v1.ManagerService.Ended":      func(a *attacker) proto.Message { return &wire.EndedRequest{} },
}

func verbOn(a *attacker) proto.Message { return &wire.VerbRequest{Id: a.task, Grace: 0.001} }

// command returns a request for a task of the attacker's that waits, held.
func (a *attacker) command(script string) *wire.RunRequest {
	return &wire.RunRequest{
		Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Cwd: "/", Cpus: 0.001, Held: true,
	}
}
