package yarn

import (
	"context"
	"fmt"
	"time"

	"headrace/lab/rig"
)

// workloadMemory is the memory of a node and of a container in MB: one container runs
// on a node at a time.
const workloadMemory = 2048

// workloads returns the experiment of checkpoint-preemption, section 5.3, made smaller.
func (b *bench) workloads(ctx context.Context) error {
	plan, err := b.o.workloadPlan()
	if err != nil {
		return err
	}
	b.h.Say(0, "(%s) preparing the tasks", expWorkload)
	low, err := b.kmeans(ctx, plan.Bytes, plan.Low)
	if err != nil {
		return err
	}
	high, err := b.kmeans(ctx, plan.Bytes, plan.High)
	if err != nil {
		return err
	}
	plan.Low, plan.High = low.Alone, high.Alone
	b.res.Workload = plan
	var entries []entry
	policies := []string{"kill", "suspend", "checkpoint", "adaptive", "cost"}
	if len(b.o.Policies) > 0 {
		policies = Policies
	}
	for _, policy := range b.o.chosen(policies...) {
		for _, store := range b.storesOf(policy) {
			entries = append(entries, entry{
				setup: yarnSetup{mode: modeOf(policy), nodes: workloadSlots, memory: workloadMemory}, policy: policy, store: store,
				run: func(ctx context.Context, b *bench) (Run, error) {
					return b.workload(ctx, plan, policy, low, high)
				},
				bound: workloadTime,
			})
		}
	}
	return b.repeat(ctx, expWorkload, b.o.Workloads, entries)
}

// storesOf returns the stores that a policy is compared with; one empty name for a
// policy that uses none.
func (b *bench) storesOf(policy string) []string {
	switch {
	case policy == "checkpoint" || policy == "adaptive":
		if b.o.Quick {
			return []string{rig.StoreDisk}
		}
		return yarnStores
	case policy == "cost":
		return []string{rig.StoreDisk}
	}
	return []string{""}
}

// workload submits all jobs at their times and waits for their ends.
func (b *bench) workload(ctx context.Context, plan *WorkloadPlan, policy string, low, high rig.Job) (Run, error) {
	w, err := b.watchRun()
	if err != nil {
		return Run{}, err
	}
	start := time.Now()
	for _, p := range plan.Jobs {
		at := start.Add(time.Duration(p.At * float64(time.Second)))
		if err := rig.WaitUntil(ctx, at); err != nil {
			return Run{}, fmt.Errorf("wait for the time of job %s: %w", p.Name, context.Cause(ctx))
		}
		work := low
		if p.High {
			work = high
		}
		if err := w.submit(w.job(p.Name, p.High, p.Tasks, yarnTask{Job: work}), workloadMemory); err != nil {
			return Run{}, err
		}
	}
	return w.account(ctx, policy)
}
