package inputs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
)

const testPool = "BP-1-127.0.0.1-1700000000000"

func id(n int64) headrace.BlockID { return headrace.BlockID{Pool: testPool, Number: n} }

// patience is longer than anything takes that is waited for.
const patience = 2 * time.Minute

// idle is timing by which nothing is looked after but when a test does it.
var idle = timing{away: time.Hour, look: time.Hour, settle: time.Millisecond, silent: time.Hour}

func newInputs(t testing.TB, c Config) *Inputs {
	t.Helper()
	if c.timing == (timing{}) {
		c.timing = idle
	}
	in, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { in.Watch(stop); close(ended) }()
	t.Cleanup(func() { close(stop); <-ended })
	return in
}

// nameNode is one that has files, each of which some users may read; none: all.
type nameNode struct {
	mu    sync.Mutex
	files map[string]nameFile
	users []string        // who has asked, and for whom
	asked map[string]int  // how often, by what
	gate  func(op string) // is called before an answer; nil: nothing is
}

type nameFile struct {
	blocks  []headrace.Block
	readers []string
}

// blocksOf makes n blocks of 100 bytes, numbered from first on.
func blocksOf(first int64, n int, hosts ...string) (list []headrace.Block) {
	for i := range n {
		list = append(list, headrace.Block{ID: id(first + int64(i)), Generation: 1, Offset: int64(i) * 100, Bytes: 100, Hosts: hosts})
	}
	return list
}

func (f *nameNode) start(t testing.TB) FileSystem {
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return FileSystem{Name: "c", NameNodes: []string{server.URL}}
}

type object = map[string]any

func (f *nameNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, at := r.URL.Query(), strings.TrimPrefix(r.URL.Path, "/webhdfs/v1")
	if f.gate != nil {
		f.gate(q.Get("op"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[q.Get("op")]++
	f.users = append(f.users, q.Get("user.name")+"+"+q.Get("doas"))
	file, isFile := f.files[at]
	isDir := slices.ContainsFunc(f.names(), func(name string) bool { return strings.HasPrefix(name, strings.TrimSuffix(at, "/")+"/") })
	user := q.Get("user.name")
	if q.Get("doas") != "" {
		user = q.Get("doas")
	}
	refuse := func(code int, class string) {
		w.WriteHeader(code)
		answer(w, object{"RemoteException": object{"exception": class[strings.LastIndex(class, ".")+1:], "javaClassName": class, "message": class + " of " + at}})
	}
	switch op := q.Get("op"); {
	case !isFile && !isDir:
		refuse(http.StatusNotFound, "java.io.FileNotFoundException")
	case op == "GETFILESTATUS":
		answer(w, object{"FileStatus": f.status(at, "")})
	case op == "LISTSTATUS_BATCH":
		answer(w, object{"DirectoryListing": object{"partialListing": object{"FileStatuses": object{"FileStatus": f.list(at, q.Get("startafter"))}}, "remainingEntries": 0}})
	case op == "GET_BLOCK_LOCATIONS" && len(file.readers) > 0 && !slices.Contains(file.readers, user):
		refuse(http.StatusForbidden, "org.apache.hadoop.security.AccessControlException")
	case op == "GET_BLOCK_LOCATIONS":
		var list []object
		length := int64(0)
		for _, b := range file.blocks {
			var hosts []object
			for _, h := range b.Hosts {
				hosts = append(hosts, object{"hostName": h})
			}
			list = append(list, object{
				"block":       object{"blockPoolId": b.ID.Pool, "blockId": b.ID.Number, "generationStamp": b.Generation, "numBytes": b.Bytes},
				"startOffset": b.Offset, "locations": hosts,
			})
			length += b.Bytes
		}
		answer(w, object{"LocatedBlocks": object{"fileLength": length, "locatedBlocks": list, "isLastBlockComplete": true}})
	default:
		http.Error(w, op, http.StatusBadRequest)
	}
}

func answer(w http.ResponseWriter, o object) { _ = json.NewEncoder(w).Encode(o) }

func (f *nameNode) names() (all []string) {
	for name := range f.files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func (f *nameNode) status(at, suffix string) object {
	if file, ok := f.files[at]; ok {
		n := int64(0)
		for _, b := range file.blocks {
			n += b.Bytes
		}
		return object{"pathSuffix": suffix, "permission": "644", "type": "FILE", "length": n}
	}
	return object{"pathSuffix": suffix, "permission": "755", "type": "DIRECTORY"}
}

// list tells what is in a directory, behind a name.
func (f *nameNode) list(at, after string) (all []object) {
	seen := map[string]bool{}
	for _, name := range f.names() {
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(at, "/")+"/"); ok {
			if child, _, _ := strings.Cut(rest, "/"); !seen[child] && child > after {
				seen[child] = true
				all = append(all, f.status(path.Join(at, child), child))
			}
		}
	}
	return all
}

// exchanger is an Inputs, or a client of one.
type exchanger interface {
	Exchange(context.Context, *wire.ExchangeRequest) (*wire.ExchangeResponse, error)
}

// madeUp is a node that does at once what it is told to.
type madeUp struct {
	t        testing.TB
	in       exchanger
	name     string
	session  uint64
	all      bool // the next report has everything
	wait     float64
	budget   int64
	unseen   uint64
	watched  uint64
	ordered  uint64
	watching map[headrace.BlockID]bool
	memory   map[headrace.BlockID]int64 // what is in memory, of what is watched
	keeping  map[order]wire.KeptState
	places   map[order]*wire.BlocksToKeep
	facts    map[string]*wire.JobFacts
	// state is what becomes of blocks that are to be read.
	state wire.KeptState
}

type order struct {
	job string // USER/JOB
	id  headrace.BlockID
}

func newNode(t testing.TB, in exchanger, name string) *madeUp {
	n := &madeUp{t: t, in: in, name: name, budget: 1 << 30, state: wire.KeptState_KEPT_STATE_PINNED}
	n.restart()
	return n
}

var sessions uint64

// restart has it know nothing.
func (n *madeUp) restart() {
	sessions++
	n.session, n.all, n.watched, n.ordered = sessions, true, 0, 0
	n.watching, n.memory = map[headrace.BlockID]bool{}, map[headrace.BlockID]int64{}
	n.keeping, n.places, n.facts = map[order]wire.KeptState{}, map[order]*wire.BlocksToKeep{}, map[string]*wire.JobFacts{}
}

func jobOf(r *wire.JobRef) string { return r.GetUser() + "/" + r.GetJob() }

func refOf(job string) *wire.JobRef {
	user, name, _ := strings.Cut(job, "/")
	return &wire.JobRef{User: user, Job: name}
}

func (n *madeUp) request() *wire.ExchangeRequest {
	q := &wire.ExchangeRequest{
		Node: n.name, Session: n.session, Full: n.all, Hosts: []string{n.name + ".example"}, Watched: n.watched, Ordered: n.ordered,
		Wait: n.wait, Budget: n.budget, Unseen: n.unseen,
	}
	for b := range n.watching {
		q.Resident = append(q.Resident, &wire.BlocksInMemory{
			Blocks: &wire.BlockList{Pool: b.Pool, Numbers: []int64{b.Number}}, Resident: []int64{n.memory[b]}, Bytes: []int64{100},
		})
	}
	for o, s := range n.keeping {
		q.Kept = append(q.Kept, &wire.KeptBlocks{Job: refOf(o.job), Blocks: n.places[o], State: s, Reason: "a reason"})
	}
	if n.all {
		for _, f := range n.facts {
			q.Jobs = append(q.Jobs, f)
		}
	}
	return q
}

// exchange tells how it is and takes in the answer.
func (n *madeUp) exchange() (*wire.ExchangeResponse, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	a, err := n.in.Exchange(ctx, n.request())
	if err == nil {
		n.apply(a)
	}
	return a, err
}

func (n *madeUp) apply(a *wire.ExchangeResponse) {
	n.all = false
	if w := a.Watch; w != nil {
		n.watched = w.Number
		if w.Full {
			clear(n.watching)
		}
		for b := range convert.Blocks(w.Remove) {
			delete(n.watching, b)
		}
		for b := range convert.Blocks(w.Add) {
			n.watching[b] = true
		}
	}
	if r := a.Read; r != nil {
		n.ordered = r.Number
		if r.Full {
			clear(n.keeping)
		}
		for _, j := range r.LetGo {
			for b := range convert.BlocksToKeep(j.Blocks...) {
				delete(n.keeping, order{jobOf(j.Job.Job), b.ID})
			}
		}
		for _, j := range r.Keep {
			n.facts[jobOf(j.Job.Job)] = j.Job
			for b, place := range convert.BlocksToKeep(j.Blocks...) {
				o := order{jobOf(j.Job.Job), b.ID}
				one := &wire.BlocksToKeep{}
				convert.AddToKeep(one, b, place)
				n.keeping[o], n.places[o] = n.state, one
				if n.state == wire.KeptState_KEPT_STATE_PINNED || n.state == wire.KeptState_KEPT_STATE_RESIDENT {
					n.memory[b.ID] = b.Bytes
				}
			}
		}
	}
}

// settle exchanges until there is nothing new.
func (n *madeUp) settle() {
	n.t.Helper()
	for range 50 {
		a, err := n.exchange()
		if connect.CodeOf(err) == connect.CodeFailedPrecondition && err != nil && !n.all {
			n.all, n.watched, n.ordered = true, 0, 0
			continue
		}
		if err != nil {
			n.t.Fatalf("node %s: %v", n.name, err)
		}
		if a.Watch == nil && a.Read == nil {
			return
		}
	}
	n.t.Fatalf("node %s: there is no end of news", n.name)
}

func settle(nodes ...*madeUp) {
	for range 2 { // what one tells may concern another
		for _, n := range nodes {
			n.t.Helper()
			n.settle()
		}
	}
}

// kept returns the numbers of the blocks that it keeps for a job.
func (n *madeUp) kept(job string) (all []int64) {
	for o := range n.keeping {
		if o.job == job {
			all = append(all, o.id.Number)
		}
	}
	slices.Sort(all)
	return all
}

func wantCode(t testing.TB, what string, err error, want connect.Code, words ...string) {
	t.Helper()
	if err == nil || connect.CodeOf(err) != want {
		t.Errorf("%s: %v; want %v", what, err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

func wantEqual[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}
