package inputs

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/warm/master"
	"headrace/wire"
)

// TestLease: what a job has asked for ends when nobody has spoken of it for its lease, whatever
// the scheduler says that runs other jobs; until then it is alive.
func TestLease(t *testing.T) {
	in, _, a, b := warmTwo(t)
	renew := func(user string, seconds float64, jobs ...string) {
		t.Helper()
		if _, err := in.Inputs(t.Context(), &wire.InputsRequest{User: user, Jobs: jobs, Lease: seconds}); err != nil {
			t.Fatal(err)
		}
	}
	warm := func(user, job string, seconds float64) {
		t.Helper()
		q := &wire.WarmInputsRequest{User: user, Job: job, Lease: seconds, Paths: []string{"hdfs://c/data"}}
		if _, err := in.Warm(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	after := func(d time.Duration, want ...string) {
		t.Helper()
		in.look(time.Now().Add(d))
		var names []string
		for _, st := range in.master.List(time.Now(), func(master.Name) bool { return true }) {
			names = append(names, st.Owner+"/"+string(st.Job))
		}
		wantEqual(t, "what is kept", names, want)
	}
	warm("alice", "query", 60)
	warm("bob", "query", 600)
	settle(a, b)
	in.Running(map[string]*wire.Application{"application_1_0001": {}})
	for job, want := range map[headrace.JobID]bool{"query": true, "j1": false, "application_1_0001": true} {
		if in.alive(master.Name{Owner: "alice", Job: job}) != want {
			t.Errorf("%s is alive: %v", job, !want)
		}
	}

	after(50*time.Second, "alice/j1", "alice/query", "bob/query")
	renew("alice", 10, "query") // the earlier lease is longer
	renew("bob", 1000, "query", "unknown")
	renew("root", 1000, "query") // it is not root's
	renew("alice", 1000)         // nothing is named
	after(59*time.Second, "alice/j1", "alice/query", "bob/query")
	renew("alice", 100, "query")
	after(70*time.Second, "alice/j1", "alice/query", "bob/query")
	after(101*time.Second, "alice/j1", "bob/query")
	renew("alice", 100, "query") // too late
	renew("alice", 100, "j1")
	after(0, "alice/j1", "bob/query")
	if res, err := in.Inputs(t.Context(), &wire.InputsRequest{User: "alice", Jobs: []string{"query"}}); err != nil || len(res.Inputs) != 1 || res.Inputs[0].State != "ended" {
		t.Errorf("%v, %v", res, err)
	}
	after(101*time.Second, "bob/query")
	if _, err := in.Cool(t.Context(), &wire.CoolInputsRequest{User: "bob", Jobs: []string{"query"}}); err != nil {
		t.Fatal(err)
	}
	warm("alice", "query", 0) // it knows nothing of its lease before
	after(time.Hour-time.Second, "alice/query")
	if len(in.leases) != 0 {
		t.Errorf("leases stay: %v", in.leases)
	}

	for _, lease := range []float64{-1, math.NaN(), math.Inf(1), 1e9} {
		_, err := in.Inputs(t.Context(), &wire.InputsRequest{User: "alice", Lease: lease})
		wantCode(t, "a lease that makes no sense", err, connect.CodeInvalidArgument, "lease")
	}
}

// TestLeaseOutlivesManager: a job that was adopted ends when nobody has spoken of it for its lease; one without a lease stays.
func TestLeaseOutlivesManager(t *testing.T) {
	in, f, a, b := warmTwo(t)
	warm := func(job string, seconds float64) {
		t.Helper()
		q := &wire.WarmInputsRequest{User: "alice", Job: job, Lease: seconds, Paths: []string{"hdfs://c/data"}}
		if _, err := in.Warm(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	warm("query", 120)
	warm("query", 0)
	warm("driver", 0)
	settle(a, b)
	if _, err := in.Inputs(t.Context(), &wire.InputsRequest{User: "alice", Jobs: []string{"driver"}, Lease: 600}); err != nil {
		t.Fatal(err)
	}
	settle(a, b)
	in = newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	a.in, b.in = in, in
	settle(a, b)
	for _, c := range []struct {
		after  time.Duration
		stands string
	}{{100 * time.Second, "driver j1 query"}, {130 * time.Second, "driver j1"}, {610 * time.Second, "j1"}} {
		a.all = true // it joins once more, which prolongs nothing
		settle(a, b)
		in.look(time.Now().Add(c.after))
		settle(a, b)
		jobs := map[string]bool{}
		for _, n := range []*madeUp{a, b} {
			for o := range n.keeping {
				jobs[strings.TrimPrefix(o.job, "alice/")] = true
			}
		}
		wantEqual(t, "kept after "+c.after.String(), strings.Join(slices.Sorted(maps.Keys(jobs)), " "), c.stands)
	}
}
