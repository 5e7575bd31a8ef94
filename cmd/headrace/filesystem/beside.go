package filesystem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"headrace/block"
	"headrace/cli"
	"headrace/disk"
)

const (
	firstAgain = time.Second
	lastAgain  = time.Minute
)

// Beside runs a node of a file system in the daemon of a machine, if one is asked for, until end is called or ctx ends. What goes wrong with it is told
// in the log, and it is tried again: tasks have nothing to do with it.
func Beside(ctx context.Context, app *cli.App, f *StartFlags, log *slog.Logger) (end func()) {
	if f.Dir == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	log = log.With("of", "dfs")
	up := false
	f.up = func(addresses string) {
		up = true
		log.Info("the file system is up", "at", strings.Fields(addresses))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
			up = false
			err := verbs{app}.startSafely(ctx, f, log)
			if ctx.Err() != nil {
				if err != nil && !errors.Is(err, context.Canceled) {
					log.Error("the file system has not ended well", "err", err)
				}
				return
			}
			if up {
				pause = firstAgain
			}
			log.Error("the file system has failed; it is started again", "err", err, "in", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// Hangs lists the disks that do not answer the node, if it runs. It may be called from any goroutine.
func (f *StartFlags) Hangs() []disk.Hang {
	if n := f.node.Load(); n != nil {
		return block.Hangs(n.Blocks)
	}
	return nil
}

// startSafely makes an error of a panic.
func (a verbs) startSafely(ctx context.Context, f *StartFlags, log *slog.Logger) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return a.start(ctx, f, log)
}
