package solo

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"

	"headrace/internal/linux"
	"headrace/proc/attach"
	"headrace/serve"
	"headrace/solo/statedir"
)

// listenAttach takes in the processes of hosted tasks. The function it returns
// closes the socket and waits until nobody is served any more; what was started
// goes on.
func (d *Daemon) listenAttach(l *loop) (stop func(), err error) {
	path := statedir.AttachSocket(d.cfg.StateDir)
	socket, err := listenSocket(path)
	if err != nil {
		return nil, err
	}
	listener := serve.NewPeers(d.patient(socket, "containers", l), d.cfg.UserConnections)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Add(1)
	go func() {
		defer serving.Done()
		for {
			conn, err := listener.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					l.log.Error("taking in containers stopped", "err", err)
				}
				return
			}
			serving.Add(1)
			go func() {
				defer serving.Done()
				defer conn.Close()
				l.containers.serve(ctx, conn.(*serve.Peer))
			}()
		}
	}()
	return func() {
		os.Remove(path)
		cancel()
		socket.Close()
		serving.Wait()
	}, nil
}

// serve starts the command of one process that has connected. Whatever goes
// wrong before it lets go of the command, that process runs it itself. To start it
// may take long, when there is a checkpoint to be fetched.
func (h *containers) serve(ctx context.Context, from *serve.Peer) {
	conn := from.UnixConn
	if err := cmp.Or(from.Refusal, from.Doubt()); err != nil {
		attach.Answer(conn, attach.Reply{Error: err.Error()})
		return
	}
	q, files, peer, err := attach.Receive(conn)
	if err != nil {
		h.warn("attach", "a process that wanted to be a container was not understood", "err", err)
		attach.Answer(conn, attach.Reply{Error: err.Error()}) // one that has gone needs no answer
		return
	}
	a := arrival{Request: q, from: peer, files: files}
	if a.cgroups, err = foreignCgroups(peer.PID); err != nil {
		h.warn("cgroups", "the cgroups of a container are not known; it runs in those of the daemon", "id", q.ID, "err", err)
	}
	if err := peer.Still(); err != nil { // else another process's cgroups may be taken for its own
		files.Close()
		h.warn("attach", "a process that wanted to be a container has gone", "id", q.ID, "err", err)
		attach.Answer(conn, attach.Reply{Error: err.Error()})
		return
	}
	answer := attach.Reply{}
	switch err := h.receive(ctx, a); {
	case ctx.Err() != nil, errors.Is(err, serve.ErrStopping):
		return // it is being started, maybe; the end of the connection tells it enough
	case err != nil:
		answer.Error, answer.Later = err.Error(), errors.Is(err, errNotYet)
		if !answer.Later {
			h.log.Warn("a container was not started here", "id", q.ID, "err", err)
		}
	}
	attach.Answer(conn, answer)
}

// foreignCgroups returns the cgroups that a process is in and the daemon is not: what
// its scheduler has set up for it.
func foreignCgroups(pid int) ([]string, error) {
	own, err := linux.CgroupDirs(os.Getpid())
	if err != nil {
		return nil, err
	}
	theirs, err := linux.CgroupDirs(pid)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for hierarchy, dir := range theirs {
		if own[hierarchy] != dir {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}
