package convert

import (
	"time"

	"headrace"
	"headrace/wire"
)

// Bytes returns n within reason: no negative number, and so small that those of all
// tasks of a node can be added up.
func Bytes(n int64) int64 { return min(max(0, n), 1<<47) }

// Amount returns x within reason, and 0 when it is no amount.
func Amount(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1e15)
}

// Seconds returns x as a duration, at most a year.
func Seconds(x float64) time.Duration {
	const most = 365 * 24 * 3600
	return time.Duration(min(Amount(x), most) * float64(time.Second))
}

// Priority returns p, or the greatest there is.
func Priority(p uint32) headrace.Priority {
	return headrace.Priority(min(p, uint32(headrace.MaxPriority)))
}

// Hosting returns whose task it is; nothing of h if h is nil.
func Hosting(h *wire.Hosting) headrace.Hosting {
	return headrace.Hosting{Scheduler: h.GetScheduler(), Application: h.GetApplication(), Queue: h.GetQueue(), Submitter: h.GetSubmitter()}
}

// HostingMessage returns the inverse of Hosting.
func HostingMessage(h headrace.Hosting) *wire.Hosting {
	return &wire.Hosting{Scheduler: h.Scheduler, Application: h.Application, Queue: h.Queue, Submitter: h.Submitter}
}

// StoreView returns what a node tells of a store, since ago.
func StoreView(s *wire.Store, since time.Duration) headrace.StoreView {
	return headrace.StoreView{
		Name: s.Name, Write: Amount(s.Write), Read: Amount(s.Read),
		DumpOverhead: Seconds(s.DumpOverhead), RestoreOverhead: Seconds(s.RestoreOverhead),
		Free: Bytes(s.Free), Queue: max(0, Seconds(s.Queue)-since),
	}
}

// nobody is for whom dumps are done that another scheduler orders.
const nobody = 0

// StoreMessage returns the inverse of StoreView, for now. The queue is that of what other schedulers order.
func StoreMessage(s headrace.StoreView) *wire.Store {
	return &wire.Store{
		Name: s.Name, Write: s.Write, Read: s.Read, DumpOverhead: s.DumpOverhead.Seconds(), RestoreOverhead: s.RestoreOverhead.Seconds(),
		Free: s.Free, Queue: s.QueueOf(nobody).Seconds(),
	}
}

// NodeView returns what a node tells of itself, since ago.
func NodeView(id headrace.NodeID, n *wire.NodeInfo, since time.Duration) headrace.NodeView {
	v := headrace.NodeView{
		ID: id, Memory: Bytes(n.Memory), SwapFree: Bytes(n.SwapFree), SwapOut: Amount(n.SwapOut), SwapIn: Amount(n.SwapIn),
	}
	for _, s := range n.Stores {
		v.Stores = append(v.Stores, StoreView(s, since))
	}
	return v
}
