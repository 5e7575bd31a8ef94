package serve

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"headrace/internal/budget"
)

// Applications bounds how many requests of each kind one application of a user has answered at a
// time, so that one that asks without end leaves room for the user's others: on a cluster many
// have one account. More are refused at once, and wait for nothing. It stands behind the
// Interceptor. An application is who a request says it is: that is fairness among those who mean
// well, not a defence, which are the limits of users.
type Applications struct{ open budget.SharedTiers }

// NewApplications lets each application have most requests of a kind.
func NewApplications(most int64) *Applications {
	return &Applications{open: budget.SharedTiers{Tiers: budget.Tiers{What: "requests", Owner: most}}}
}

// WrapUnary wraps handlers with one answer.
func (a *Applications) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		name := applicationOf(q.Any())
		if name == "" {
			return next(ctx, q)
		}
		owner := fmt.Sprintf("%d %s %s", CallerOf(ctx).UID, q.Spec().Procedure, name)
		if a.open.Take(owner, 1) != nil {
			return nil, fmt.Errorf("%w: %.80q has %d requests of this kind that are not answered yet; no more are taken of it", ErrBusy, name, a.open.Tiers.Owner)
		}
		defer a.open.Give(owner, 1)
		return next(ctx, q)
	}
}

// applicationOf returns which application or job a request is about; empty: it does not say, or there are several.
func applicationOf(q any) string {
	switch q := q.(type) {
	case interface{ GetApplication() string }:
		return q.GetApplication()
	case interface{ GetJob() string }:
		return q.GetJob()
	case interface{ GetJobs() []string }:
		if jobs := q.GetJobs(); len(jobs) == 1 {
			return jobs[0]
		}
	}
	return ""
}

// WrapStreamingHandler wraps nothing: no request of an application has several answers.
func (*Applications) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// WrapStreamingClient wraps nothing.
func (*Applications) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
