package lab

import (
	"context"
	"fmt"
	"time"
)

// workloadMemory is the memory of a node and of a container in MB: one container runs
// on a node at a time.
const workloadMemory = 2048

// workloads is the experiment of checkpoint-preemption, section 5.3, made smaller.
func (b *yarnBench) workloads(ctx context.Context) error {
	plan, err := b.o.workloadPlan()
	if err != nil {
		return err
	}
	b.h.say(0, "(%s) preparing the tasks", expWorkload)
	low, err := b.kmeans(ctx, plan.Bytes, plan.Low)
	if err != nil {
		return err
	}
	high, err := b.kmeans(ctx, plan.Bytes, plan.High)
	if err != nil {
		return err
	}
	plan.Low, plan.High = low.alone, high.alone
	b.res.Workload = plan
	var entries []yarnEntry
	policies := []string{"kill", "suspend", "checkpoint", "adaptive", "cost"}
	if len(b.o.Policies) > 0 {
		policies = YarnPolicies
	}
	for _, policy := range b.o.chosen(policies...) {
		for _, store := range b.storesOf(policy) {
			entries = append(entries, yarnEntry{
				setup: yarnSetup{mode: modeOf(policy), nodes: workloadSlots, memory: workloadMemory}, policy: policy, store: store,
				run: func(ctx context.Context, b *yarnBench) (YarnRun, error) {
					return b.workload(ctx, plan, policy, low, high)
				},
				bound: workloadTime,
			})
		}
	}
	return b.repeat(ctx, expWorkload, b.o.Workloads, entries)
}

// storesOf are the stores that a policy is compared with; one empty name for a policy
// that uses none.
func (b *yarnBench) storesOf(policy string) []string {
	switch {
	case policy == "checkpoint" || policy == "adaptive":
		if b.o.Quick {
			return []string{storeDisk}
		}
		return yarnStores
	case policy == "cost":
		return []string{storeDisk}
	}
	return []string{""}
}

// workload submits all jobs at their times and waits for their ends.
func (b *yarnBench) workload(ctx context.Context, plan *WorkloadPlan, policy string, low, high job) (YarnRun, error) {
	w, err := b.watchRun()
	if err != nil {
		return YarnRun{}, err
	}
	start := time.Now()
	for _, p := range plan.Jobs {
		at := start.Add(time.Duration(p.At * float64(time.Second)))
		if err := waitUntil(ctx, at); err != nil {
			return YarnRun{}, fmt.Errorf("wait for the time of job %s: %w", p.Name, context.Cause(ctx))
		}
		work := low
		if p.High {
			work = high
		}
		if err := w.submit(w.job(p.Name, p.High, p.Tasks, yarnTask{job: work}), workloadMemory); err != nil {
			return YarnRun{}, err
		}
	}
	return w.account(ctx, policy)
}
