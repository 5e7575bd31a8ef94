package solo

import (
	"net/http"

	"headrace/internal/budget"
	"headrace/serve"
	"headrace/wire/wireconnect"
)

// What the requests of one user, and of all users but root together, may hold of
// the daemon at a time, besides the bytes of Config.
const (
	maxRequestsPerUser, maxRequestsOthers = 512, 2048
	// Answers that go on until somebody has seen enough.
	maxFollowsPerUser, maxFollowsOthers = 128, 512
	// Answers that grow with what a user has; more of them wait.
	maxListsPerUser = 4
	// Bytes of other answers that were written and are not fetched yet.
	maxAnswersPerUser, maxAnswersOthers = 32 << 20, 128 << 20
	// Answers of one kind to one application, whose user may have others: fewer than lists of a user.
	maxPerApplication = 3
)

// followed are the requests whose answers go on.
var followed = map[string]bool{
	wireconnect.TaskServiceWatchProcedure: true, wireconnect.TaskServiceLogsProcedure: true,
	wireconnect.DataServiceWatchWarmProcedure: true, wireconnect.DataServiceCacheProcedure: true,
	wireconnect.DataServiceDisksProcedure: true, wireconnect.InputServiceCachedInputsProcedure: true,
	wireconnect.InputServiceFollowProcedure: true,
}

// listed are those whose answers grow.
var listed = map[string]bool{
	wireconnect.TaskServiceListProcedure: true, wireconnect.TaskServiceGetProcedure: true, wireconnect.DataServiceListWarmProcedure: true,
	wireconnect.HostServiceApplicationProcedure: true, wireconnect.InputServiceInputsProcedure: true, wireconnect.InputServicePlacesProcedure: true,
}

func newFront(next http.Handler, c *Config) *serve.Front {
	return &serve.Front{
		Next: next, MaxRequest: maxRequest, Followed: followed, Listed: listed, Lists: budget.Slots[uint32]{Most: maxListsPerUser},
		Requests: budget.New("requests that are not answered yet", maxRequestsPerUser, maxRequestsOthers),
		Bytes:    budget.New("bytes of requests that are not answered yet", c.UserRequestBytes, c.RequestBytes),
		Follows:  budget.New("answers that go on (watch, logs -f, cache)", maxFollowsPerUser, maxFollowsOthers),
		Answers:  budget.New("bytes of answers that are not fetched yet", maxAnswersPerUser, maxAnswersOthers),
	}
}
