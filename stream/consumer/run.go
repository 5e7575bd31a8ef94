package consumer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/stream/protocol"
)

// ConsumerEnv names the environment variable in which a command finds the number
// of its consumer, from 0.
const ConsumerEnv = "HEADRACE_CONSUMER"

const (
	// exitUsage: the arguments of the runner are wrong.
	exitUsage = 2
	// exitInput: the input failed, the command was ended for that (EX_IOERR).
	exitInput = 74
	// lastWords is how long the end of a command that was told to end, and failed,
	// is offered to the daemon.
	lastWords = 2 * time.Second
)

// Run runs the program headrace-shim consume; args are what follows that name. It
// returns the exit code: that of the command, 128 and the signal for one that a
// signal has ended, 127 and 126 for one that was not found or cannot be
// executed, 74 when the input failed. Of a stream of files it is that of the
// first invocation that failed.
//
// It handles signals of the whole process, and is not to be called twice.
func Run(args []string) int {
	r := &runner{stderr: os.Stderr}
	o, socket, err := r.parse(args)
	if err != nil {
		r.say("%v", err)
		return exitUsage
	}
	runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0))) // one copies, one receives
	return r.run(socket, o)
}

// runner is one run of the program.
type runner struct {
	argv []string
	// first: it is consumer 0.
	first bool
	// record is the size of all records, in bytes; 0: they end otherwise.
	record int64
	env    []string
	stderr io.Writer
	client *Client

	mu  sync.Mutex
	cmd *command
	// told is the first signal that asked for the end.
	told syscall.Signal
	// cancel ends what waits while no command runs.
	cancel context.CancelFunc
}

func (r *runner) say(format string, a ...any) {
	fmt.Fprintf(r.stderr, "headrace: "+format+"\n", a...)
}

func (r *runner) parse(args []string) (o Options, socket string, err error) {
	fl := flag.NewFlagSet("consume", flag.ContinueOnError)
	fl.SetOutput(io.Discard)
	fl.StringVar(&socket, "socket", "", "")
	fl.StringVar(&o.Stream, "stream", "", "")
	number := func(name string, to *uint32) {
		fl.Func(name, "", func(s string) error {
			n, err := strconv.ParseUint(s, 10, 32)
			*to = uint32(n)
			return err
		})
	}
	number("consumer", &o.Consumer)
	number("attempt", &o.Attempt)
	fl.Int64Var(&r.record, "record", 0, "")
	err = fl.Parse(args)
	r.argv, r.first = fl.Args(), o.Consumer == 0
	if err == nil && (socket == "" || r.record < 0 || o.Stream == "" || o.Attempt == 0 || len(r.argv) == 0 || r.argv[0] == "") {
		err = errors.New("want --socket PATH --stream ID --consumer NUMBER --attempt NUMBER [--record BYTES] -- COMMAND [ARG ...]")
	}
	r.env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, ConsumerEnv+"=") })
	r.env = append(r.env, fmt.Sprintf("%s=%d", ConsumerEnv, o.Consumer))
	return o, socket, err
}

// outcome is how an attempt has ended.
type outcome struct {
	code   int
	reason string
}

func (r *runner) run(socket string, o Options) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.cancel = cancel
	var once sync.Once
	o.Away = func(err error) {
		once.Do(func() { r.say("the daemon does not answer (%v); waiting for it", err) })
	}
	r.client = open(socket, o)
	r.followSignals()
	followStops(r.client) // as the last: who sees its handler knows that the others are there

	w, err := r.client.await(ctx)
	var end outcome
	if err == nil {
		if w.Kind == protocol.Files {
			end, err = r.files(ctx)
		} else {
			end, err = r.records(ctx, w.Delimiter)
		}
	}
	if err == nil {
		end.code, err = r.finish(ctx, end)
	}
	if err == nil {
		return end.code
	}
	if sig := r.wasTold(); sig != 0 && errors.Is(err, context.Canceled) {
		return 128 + int(sig)
	}
	r.say("%v", err)
	return exitInput
}

// cutShort returns the outcome of a command that was not given all of its input. If it was told to
// end, and ended with 0, that is no success: it would say that what it got was all.
func (r *runner) cutShort(end outcome) outcome {
	if sig := r.wasTold(); sig != 0 && end.code == 0 {
		return outcome{128 + int(sig), "it was told to end by " + unix.SignalName(sig)}
	}
	return end
}

// finish has the end recorded. An end that is not 0 changes nothing by that: it has the others
// wait until the daemon knows whether the units come back. So what goes wrong then does not
// matter, and who was told to end does not wait for long.
func (r *runner) finish(ctx context.Context, end outcome) (int, error) {
	if end.code == 0 {
		return 0, r.client.Finish(ctx, 0, "")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.wasTold() != 0 {
		go func() {
			<-after(lastWords).off
			cancel()
		}()
	}
	if err := r.client.Finish(ctx, end.code, end.reason); err != nil && ctx.Err() == nil {
		r.say("%v", err)
	}
	return end.code, nil
}

// followSignals begins to hand signals on to the command. What is ignored stays
// ignored, here and in the command.
func (r *runner) followSignals() {
	signals := make(chan os.Signal, 16)
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go r.forward(signals)
}

// forward hands signals on to the command. Without one, those that ask for the
// end end what is being waited for.
func (r *runner) forward(signals <-chan os.Signal) {
	for s := range signals {
		sig := s.(syscall.Signal)
		ends := sig != unix.SIGUSR1 && sig != unix.SIGUSR2
		r.mu.Lock()
		if ends && r.told == 0 {
			r.told = sig
		}
		if r.cmd != nil {
			r.cmd.signal(sig)
		} else if ends {
			r.cancel()
		}
		r.mu.Unlock()
	}
}

func (r *runner) wasTold() syscall.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

// start starts a command, unless the end was asked for.
func (r *runner) start(argv []string, stdin int) (*command, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told != 0 {
		return nil, context.Canceled
	}
	cmd, err := startCommand(argv, r.env, uintptr(stdin))
	r.cmd = cmd
	return cmd, err
}

// reap returns how a command has ended.
func (r *runner) reap() outcome {
	code := r.cmd.reap()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = nil
	return ended(code)
}

// stop ends a command for which there is no use any more.
func (r *runner) stop() {
	r.cmd.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = nil
}

func ended(code int) outcome {
	switch {
	case code == 0:
		return outcome{}
	case code > 128 && unix.SignalName(syscall.Signal(code-128)) != "":
		return outcome{code, fmt.Sprintf("the command ended with code %d (%s)", code, unix.SignalName(syscall.Signal(code-128)))}
	}
	return outcome{code, fmt.Sprintf("the command ended with code %d", code)}
}

// couldNotStart returns the outcome for a command that could not be started.
func (r *runner) couldNotStart(err error) (outcome, error) {
	var s *startError
	if !errors.As(err, &s) {
		return outcome{}, err
	}
	r.say("%v", err)
	return outcome{s.code, err.Error()}, nil
}
