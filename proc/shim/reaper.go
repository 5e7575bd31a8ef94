package shim

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// death is what wait4 said of one child.
type death struct {
	pid    int
	status syscall.WaitStatus
	rusage syscall.Rusage
}

// reaper waits for every child of this process: those it started itself, and
// those that were re-parented to it. Nothing else in the process may wait.
type reaper struct {
	mu      sync.Mutex
	watched map[int]chan death
	// telling is held from before a child is gone until its death has been told.
	telling sync.Mutex
	// others gets every death that nobody watches, in order, from one goroutine.
	others func(death)
	kick   chan struct{}
}

func newReaper(others func(death)) *reaper {
	r := &reaper{watched: make(map[int]chan death), others: others, kick: make(chan struct{}, 1)}
	go r.run()
	return r
}

func (r *reaper) run() {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil { // no children at all
			<-r.kick
			continue
		}
		r.reapOne()
	}
}

// reapOne takes a child that has ended off the list of processes, and tells of it.
func (r *reaper) reapOne() {
	r.telling.Lock()
	defer r.telling.Unlock()
	var d death
	var err error
	if d.pid, err = syscall.Wait4(-1, &d.status, unix.WALL|unix.WNOHANG, &d.rusage); err != nil || d.pid == 0 {
		return
	}
	r.mu.Lock()
	ch := r.watched[d.pid]
	delete(r.watched, d.pid)
	r.mu.Unlock()
	if ch != nil {
		ch <- d
	} else {
		r.others(d)
	}
}

// settle returns when the deaths of all that are gone by now have been told. What
// others needs must not be locked.
func (r *reaper) settle() {
	r.telling.Lock()
	defer r.telling.Unlock()
}

// start runs a program in a process group of its own; its death comes on the
// channel.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (int, <-chan death, error) {
	r.mu.Lock() // its death cannot be looked up before it is watched
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, nil, &os.PathError{Op: "start", Path: path, Err: err}
	}
	ch := make(chan death, 1)
	r.watched[pid] = ch
	r.childStarted()
	return pid, ch, nil
}

// startUnwatched is start for a child whose death others gets.
func (r *reaper) startUnwatched(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, &os.PathError{Op: "start", Path: path, Err: err}
	}
	r.childStarted()
	return pid, nil
}

func (r *reaper) childStarted() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}
