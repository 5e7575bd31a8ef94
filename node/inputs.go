package node

import (
	"cmp"
	"context"
	"time"

	"connectrpc.com/connect"

	"headrace/wire"
)

// Blocks looks after the blocks of a distributed file system that lie on this machine.
// All methods are called by one goroutine at a time.
type Blocks interface {
	// Report tells what has changed since the report before the last Answered, or all
	// there is. It looks first; the request is the caller's, who sends it in parts if it is
	// large.
	Report(ctx context.Context, all bool) *wire.ExchangeRequest
	// Answered takes in what is to be done from now on, and that the last report has
	// arrived. It does not wait until it is done.
	Answered(*wire.ExchangeResponse)
	// Abandoned lets go of what is kept for jobs of which nothing has been heard for so long, and reports whether there was any. It does
	// not concern what users hold, and what has a lease that is longer.
	Abandoned(silent time.Duration) bool
}

// Exchange tells the manager of blocks and takes its orders about them, until ctx ends.
// It goes on beside Run: either may be refused without the other.
func (a *Agent) Exchange(ctx context.Context, blocks Blocks) {
	pause := backoff{first: a.cfg.timing.retry, most: a.cfg.timing.most}
	session, all := uint64(time.Now().UnixNano()), true
	var watched, ordered, number uint64
	for heard := time.Now(); ctx.Err() == nil; {
		q := blocks.Report(ctx, all)
		number++
		q.Report = number
		q.Node, q.Session, q.Watched, q.Ordered = a.cfg.Name, session, watched, ordered
		q.Wait, q.Full = a.cfg.timing.every.Seconds(), all
		answer, err := a.exchange(ctx, inParts(q, mostBlocks, mostText))
		if err == nil {
			blocks.Answered(answer)
			watched, ordered = cmp.Or(answer.Watch.GetNumber(), watched), cmp.Or(answer.Read.GetNumber(), ordered)
			all = false
			pause.reset()
			heard = time.Now()
			continue
		}
		if connect.CodeOf(err) == connect.CodeFailedPrecondition && !all {
			watched, ordered, all = 0, 0, true // the manager was started since, and wants to know everything
			continue
		}
		a.cfg.Log.Debug("the manager takes no report of blocks; it is tried again", "err", err)
		if silent := time.Since(heard); a.cfg.Unclaimed > 0 && silent >= a.cfg.Unclaimed && blocks.Abandoned(silent) {
			a.cfg.Log.Warn("blocks are not kept in memory any more: no manager has taken a report of them", "for", silent.Round(time.Second), "err", err)
			watched, ordered, all = 0, 0, true // a manager that comes back takes over what is there
		}
		select {
		case <-time.After(pause.next()):
		case <-ctx.Done():
		}
	}
}

// exchange sends the parts of a report, and returns the answer to the last.
func (a *Agent) exchange(ctx context.Context, parts []*wire.ExchangeRequest) (answer *wire.ExchangeResponse, err error) {
	for _, q := range parts {
		call, cancel := context.WithTimeout(ctx, a.cfg.timing.call+a.cfg.timing.every)
		answer, err = a.inputs.Exchange(call, q)
		cancel()
		if err != nil {
			break
		}
	}
	return answer, err
}
