package node

import (
	"context"
	"time"

	"headrace/wire"
	"headrace/wire/convert"
)

// report reports until ctx ends or a report is not accepted; it returns why.
func (a *Agent) report(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.timing.every)
	defer tick.Stop()
	for {
		if err := a.reportOnce(ctx); err != nil {
			return err
		}
		a.well()
		select {
		case <-tick.C:
		case <-a.host.Changed():
		case <-a.orders.finished:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *Agent) reportOnce(ctx context.Context) error {
	results := a.orders.results()
	info, tasks := a.host.Facts()
	a.reported++
	r := &wire.NodeReport{
		Node: a.cfg.Name, Session: a.number, Report: a.reported, Info: info, Results: results, Tasks: make([]*wire.Task, 0, len(tasks)), Progress: a.apps.told.take(),
	}
	ended := map[string]bool{}
	for _, t := range tasks {
		if convert.Final(t) {
			ended[t.Id] = true
			if a.ended[t.Id] {
				continue
			}
		}
		r.Tasks = append(r.Tasks, t)
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.timing.call)
	defer cancel()
	res, err := a.client.Report(ctx, r)
	if err != nil {
		return err
	}
	if len(res.Promised) > 0 {
		a.host.KeepPromises(res.Promised)
	}
	a.ended = ended
	a.orders.told(results)
	return nil
}
