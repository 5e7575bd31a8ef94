package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"headrace/wire"
	"headrace/wire/wireconnect"
)

// Host is the daemon of the machine. All methods may be called concurrently.
type Host interface {
	// Facts returns the machine and its hosted tasks: all that have not ended, and those
	// that have ended of late, some minutes at least. The agent changes neither. What Do
	// has done when it returns is in them.
	Facts() (*wire.NodeInfo, []*wire.Task)
	// Changed is signalled, with a capacity of 1, when the state of a hosted task has
	// changed.
	Changed() <-chan struct{}
	// Do carries out an order and returns when that is done, which may take minutes.
	// To suspend what is suspended writes page_out bytes of it to swap; apart from that,
	// what is so already is no error. When ctx ends the daemon is stopping: Do returns
	// soon.
	Do(ctx context.Context, order *wire.NodeOrder) error
	// KeepPromises writes down which ends hosted tasks have told, in seconds by their ids
	// (wire.NodeReportResponse). It returns at once. Facts tells them (Task.promised) when they are durable;
	// until it does the manager says them again.
	KeepPromises(ends map[string]float64)
}

// Config is what an agent is told. Manager, Token and Name must be set.
type Config struct {
	// Manager is http://HOST:PORT or https://HOST:PORT.
	Manager string
	Token   string
	// Name is that of this machine, different from all others'.
	Name    string
	Version string
	// CA is a file in PEM with the certificates that the manager's is checked against;
	// empty: those of the system.
	CA string
	// Unclaimed is how long containers stay put aside when no manager is heard of, and blocks in memory for jobs of the cluster;
	// then they go on by themselves, and are let go. 0: for ever.
	Unclaimed time.Duration
	// Log gets structured messages; nil: none.
	Log *slog.Logger

	timing timing
}

// timing is how long things last; tests make it shorter.
type timing struct {
	// every is the time between reports when nothing happens.
	every time.Duration
	// call is how long the manager may take to answer; silent how long it may send
	// nothing on the stream.
	call, silent time.Duration
	// retry is the first pause before another attempt, most the longest.
	retry, most time.Duration
	// fresh is how long an answer of Application is used again; stale how long without a word if the
	// manager gives no other, and how long one is kept that nobody asks about.
	fresh, stale time.Duration
}

var usualTiming = timing{
	every: time.Second, call: 5 * time.Second, silent: 10 * time.Second,
	retry: 100 * time.Millisecond, most: 5 * time.Second, fresh: time.Second, stale: 2 * time.Minute,
}

// Agent speaks to the manager.
type Agent struct {
	cfg       Config
	host      Host
	client    wireconnect.ManagerServiceClient
	inputs    wireconnect.InputServiceClient
	transport *http.Transport
	orders    *orders
	apps      applications
	// number is that of this agent, reported that of the last report; of the goroutines of Run.
	number, reported uint64
	// fault is what is wrong with the connection, for the log; see say.
	mu    sync.Mutex
	fault string
	heard time.Time       // when a manager has answered last
	ended map[string]bool // containers whose end was told in this session, and answered
}

// New checks a configuration. Nothing is sent before Run.
func New(cfg Config, host Host) (*Agent, error) {
	if cfg.Name == "" {
		return nil, errors.New("this machine has no name; give one with --name")
	}
	if err := wire.CheckName("node", cfg.Name); err != nil {
		return nil, fmt.Errorf("--name: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.timing == (timing{}) {
		cfg.timing = usualTiming
	}
	to, err := dial(cfg.Manager, cfg.Token, cfg.CA, cfg.timing.call)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, host: host, client: to.manager(), inputs: to.inputs(), transport: to.transport, number: uint64(time.Now().UnixNano()), ended: map[string]bool{}}
	a.orders = newOrders(host, cfg.Log)
	a.apps.places.Most, a.apps.turn = mostOfOne, make(chan struct{}, mostAsking)
	a.apps.all, a.apps.asking = map[question]answer{}, map[attempt]chan struct{}{}
	return a, nil
}

// Run speaks to the manager until ctx ends. Then it waits for the orders that are being
// carried out. It may be called once.
func (a *Agent) Run(ctx context.Context) {
	defer a.transport.CloseIdleConnections()
	defer a.orders.wait()
	a.hear()
	var claiming sync.WaitGroup
	defer claiming.Wait()
	claiming.Go(func() { newClaims(a).run(ctx) })
	pause := backoff{first: a.cfg.timing.retry, most: a.cfg.timing.most}
	for ctx.Err() == nil {
		began := time.Now()
		err := a.session(ctx)
		if ctx.Err() != nil {
			return
		}
		a.say(err)
		if time.Since(began) > a.cfg.timing.most {
			pause.reset()
		}
		if connect.CodeOf(err) == connect.CodeAborted || connect.CodeOf(err) == connect.CodeUnauthenticated {
			pause.longest() // at once would be no better
		}
		select {
		case <-time.After(pause.next()):
		case <-ctx.Done():
		}
	}
}

// session joins and reports, until either is over.
func (a *Agent) session(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(a.cfg.timing.silent, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := a.client.Join(ctx, &wire.JoinRequest{Node: a.cfg.Name, Version: a.cfg.Version, Session: a.number})
	if err != nil {
		return cause(ctx, err)
	}
	a.ended = map[string]bool{} // the manager may be another one
	var reporting sync.WaitGroup
	defer reporting.Wait()
	defer cancel(nil)
	for first := true; stream.Receive(); first = false {
		silence.Reset(a.cfg.timing.silent)
		if first {
			reporting.Go(func() { cancel(a.report(ctx)) })
		}
		if o := stream.Msg(); o.Number != 0 {
			a.orders.begin(o)
		}
	}
	err = stream.Err()
	if err == nil {
		err = errors.New("the manager has ended the stream")
	}
	err = cause(ctx, err)
	cancel(nil)
	stream.Close()
	return err
}

var errSilent = errors.New("the manager is silent")

// cause returns why ctx ended, if it is why err happened.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(c, context.Canceled) {
		return c
	}
	return err
}

// say writes one line when the connection is lost, and, by well, one when it is back.
func (a *Agent) say(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fault := "gone"
	switch connect.CodeOf(err) {
	case connect.CodeAborted:
		fault = "name"
	case connect.CodeUnauthenticated:
		fault = "token"
	}
	if fault == a.fault {
		a.cfg.Log.Debug("the manager cannot be reached", "manager", a.cfg.Manager, "err", err)
		return
	}
	a.fault = fault
	switch fault {
	case "name":
		a.cfg.Log.Warn("another node has this one's name; give each its own with --name", "name", a.cfg.Name)
	case "token":
		a.cfg.Log.Warn("the manager does not accept the token; give the file that it has", "manager", a.cfg.Manager)
	default:
		a.cfg.Log.Warn("the manager cannot be reached; containers go on, and it is tried again", "manager", a.cfg.Manager, "err", err)
	}
}

func (a *Agent) hear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

// well notes that a report was answered.
func (a *Agent) well() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
	if a.fault != "" {
		a.cfg.Log.Info("the manager is back", "manager", a.cfg.Manager)
	}
	a.fault = ""
}
