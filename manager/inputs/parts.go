package inputs

import (
	"time"

	"connectrpc.com/connect"

	"headrace/wire"
)

// maxParts is in how many requests a node may tell everything.
const maxParts = 20

// parts is what has come so far of everything that a node tells.
type parts struct {
	*wire.ExchangeRequest // the first, with what the others add
	last                  uint32
	heard                 time.Time
}

// gather puts together what a node tells in parts. in.mu is held.
func (in *Inputs) gather(q *wire.ExchangeRequest, now time.Time) (*wire.ExchangeRequest, error) {
	if q.Part == 0 {
		delete(in.parts, q.Node)
		if q.More {
			if len(in.parts) >= maxNodes {
				return nil, errManyNodes
			}
			in.parts[q.Node] = &parts{q, 0, now}
		}
		return q, nil
	}
	p := in.parts[q.Node]
	if p == nil || p.Session != q.Session || q.Part != p.last+1 || q.Part >= maxParts {
		delete(in.parts, q.Node)
		return nil, connect.NewError(connect.CodeFailedPrecondition, errTellAll)
	}
	p.Resident, p.Kept, p.Jobs, p.Reads = append(p.Resident, q.Resident...), append(p.Kept, q.Kept...), append(p.Jobs, q.Jobs...), append(p.Reads, q.Reads...)
	if p.last, p.heard = q.Part, now; !q.More {
		delete(in.parts, q.Node)
	}
	return p.ExchangeRequest, nil
}
