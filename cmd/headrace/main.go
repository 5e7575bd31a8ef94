package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echo is how long a signal that comes again counts as the same.
const echo = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once, but not the echo of the first: timeout(1)
	// signals its command and then the group that it is in.
	context.AfterFunc(ctx, func() { time.AfterFunc(echo, stop) })
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
