package solo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"headrace/data"
	"headrace/internal/accept"
	"headrace/serve"
	"headrace/solo/statedir"
	"headrace/wire"
)

// listenSocket opens a socket to all users. Everybody may knock; who is let in is
// decided by the kernel's word on who it is.
func listenSocket(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	socket, err := wire.Listen(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		socket.Close()
		return nil, fmt.Errorf("open the socket to users: %w", err)
	}
	return socket, nil
}

// listenStreams lets consumers in. The function it returns ends their
// connections.
func (d *Daemon) listenStreams(l *loop, files *data.Files) (stop func(), err error) {
	path := statedir.StreamSocket(d.cfg.StateDir)
	socket, err := listenSocket(path)
	if err != nil {
		return nil, err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := files.ServeStreams(d.patient(socket, "streams", l)); err != nil {
			l.log.Error("serving streams stopped", "err", err)
		}
	}()
	return func() {
		os.Remove(path)
		files.StopStreams()
		<-served
	}, nil
}

// reserved is how many descriptors are kept back for root and the daemon's own
// user: each of their requests takes one, for a moment.
const reserved = 32

// patient returns a listener that goes on when descriptors are short, with those that
// are kept back.
func (d *Daemon) patient(socket net.Listener, name string, l *loop) *accept.Listener {
	return &accept.Listener{Listener: socket, Name: name, Log: l.log, Reserve: d.reserve}
}

// listen opens the API and the metrics. The function it returns closes them and
// waits until nothing is served any more.
func (d *Daemon) listen(l *loop, files *data.Files) (stop func(), err error) {
	path := d.Socket()
	socket, err := listenSocket(path)
	if err != nil {
		return nil, err
	}
	s := &service{loop: l, board: l.board, version: d.cfg.Version, files: files}
	d.host.s = s
	unfollowed := make(chan struct{})
	files.Start()
	base, cancel := context.WithCancelCause(context.Background())
	servers := []*http.Server{newFront(s.handler(), &d.cfg).Server(base)}
	listeners := []net.Listener{serve.NewPeers(d.patient(socket, "the API", l), d.cfg.UserConnections)}
	if d.cfg.Metrics != "" {
		ml, err := net.Listen("tcp", d.cfg.Metrics)
		if err != nil {
			cancel(err)
			socket.Close()
			return nil, fmt.Errorf("serve metrics: %w; choose another port", err)
		}
		servers = append(servers, metricsServer(metricsHandler(l.counts, l.board.Metrics(d.cfg.StateDir), files.Metrics())))
		listeners = append(listeners, &accept.Newest{Listener: &accept.Listener{Listener: ml, Name: "the metrics", Log: l.log}, Max: maxMetricsConns})
		l.log.Info("metrics", "address", "http://"+ml.Addr().String()+"/metrics")
	}
	var serving sync.WaitGroup
	serving.Add(1)
	go func() {
		defer serving.Done()
		d.host.follow(unfollowed)
	}()
	for i, srv := range servers {
		serving.Add(1)
		go func() {
			defer serving.Done()
			if err := srv.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				l.log.Error("serving stopped", "err", err)
			}
		}()
	}
	return func() {
		os.Remove(path)
		cancel(serve.ErrStopping)
		close(unfollowed)
		for _, srv := range servers {
			srv.Close()
		}
		serving.Wait()
	}, nil
}

// maxMetricsConns is how many connections for metrics there are at most. Nothing is
// known of whoever makes them, so the oldest has to give way.
const maxMetricsConns = 32

func metricsServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
}
