package reopen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	img "headrace/internal/criu/image"
	"headrace/internal/linux"
)

// socket is an entry of files.img that is a socket.
type socket struct {
	entry int
	kind  uint64
	at    []held // of processes that have it
}

// bound is a socket that had a port and was no connection.
type bound struct {
	held
	address, peer unix.Sockaddr // peer: that it was connected to, or nil
	listens       bool
	backlog       int
	shut          int // as for shutdown(2); -1: in no direction
	// How such a socket is made.
	family, kind, proto, v6only, reuseAddr, reusePort int
}

func (b bound) port() port { return port{uint64(b.kind), uint64(portOf(b.address))} }

// sharer is a socket that shares its port with others of the task while they are bound: where several listen at it, as those do
// that had SO_REUSEPORT when they began to.
type sharer struct {
	held
	listeners bool
}

// port is the number of a port, and of which sockets: those of streams and those of datagrams have nothing to do with each other.
type port struct{ kind, number uint64 }

// unbind takes their ports from sockets, for Bind. Connections keep theirs: CRIU makes
// them with both ends. Those that have a port of such a socket share it. A socket of datagrams which has its port alone is
// not to: while it shared, the kernel would let it have one that somebody else has taken to share.
func (t *tree) unbind() (list []bound, sharing []sharer, err error) {
	ports := map[port][]held{}
	for _, s := range t.sockets {
		if s.kind != img.TypeInet || len(s.at) == 0 {
			continue
		}
		e := t.files.Entries[s.entry]
		m, err := e.Message(img.FileInet)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", filesImage, err)
		}
		var at port
		at.number, _ = m.Uint(img.InetSrcPort)
		at.kind, _ = m.Uint(img.InetType)
		peer, _ := m.Uint(img.InetDstPort)
		proto, _ := m.Uint(img.InetProto)
		if at.kind == sockRaw { // what stands there is its protocol
			continue
		}
		ports[at] = append(ports[at], s.at[0])
		if at.number == 0 || proto == unix.IPPROTO_TCP && peer != 0 {
			continue
		}
		b, err := boundAs(m, s.at[0])
		if err != nil {
			return nil, nil, err
		}
		list = append(list, b)
		m = slices.DeleteFunc(slices.Clone(m), func(f img.Field) bool { return f.Num == img.InetShutdown })
		m = m.SetUint(img.InetSrcPort, 0).SetUint(img.InetDstPort, 0).SetUint(img.InetState, img.StateClosed)
		t.files.Entries[s.entry] = e.SetMessage(img.FileInet, m)
	}
	listeners := map[port]bool{}
	for _, b := range list {
		if b.listens && b.reusePort != 0 {
			listeners[b.port()] = true
		}
	}
	for _, b := range list {
		at := b.port()
		if b.kind == unix.SOCK_STREAM || len(ports[at]) > 1 {
			for _, d := range ports[at] {
				sharing = append(sharing, sharer{d, listeners[at]})
			}
		}
		delete(ports, at)
	}
	return list, sharing, nil
}

// boundAs reads an inet_sk_entry.
func boundAs(m img.Message, at held) (b bound, err error) {
	b.held, b.shut = at, -1
	if b.address, err = addressOf(m, img.InetSrcAddr, img.InetSrcPort); err != nil {
		return b, err
	}
	if peer, _ := m.Uint(img.InetDstPort); peer != 0 {
		if b.peer, err = addressOf(m, img.InetDstAddr, img.InetDstPort); err != nil {
			return b, err
		}
	}
	state, _ := m.Uint(img.InetState)
	backlog, _ := m.Uint(img.InetBacklog)
	b.listens, b.backlog = state == img.StateListen, int(backlog)
	options, err := m.Message(img.InetOptions)
	if err != nil {
		return b, err
	}
	for field, to := range map[fieldNumber]*int{img.InetFamily: &b.family, img.InetType: &b.kind, img.InetProto: &b.proto, img.InetV6Only: &b.v6only} {
		v, _ := m.Uint(field)
		*to = int(v)
	}
	for field, to := range map[fieldNumber]*int{img.OptionReuseAddr: &b.reuseAddr, img.OptionReusePort: &b.reusePort} {
		v, _ := options.Uint(field)
		*to = int(v)
	}
	if shut, _ := m.Uint(img.InetShutdown); shut > 0 {
		b.shut = int(shut) - 1
	}
	return b, nil
}

// addressOf reads one end of an inet_sk_entry.
func addressOf(m img.Message, address, port fieldNumber) (unix.Sockaddr, error) {
	words, err := m.Uints(address)
	if err != nil {
		return nil, err
	}
	var b []byte // in the order of the network
	for _, w := range words {
		b = binary.NativeEndian.AppendUint32(b, uint32(w))
	}
	p, _ := m.Uint(port)
	switch family, _ := m.Uint(img.InetFamily); {
	case family == unix.AF_INET && len(b) >= 4:
		return &unix.SockaddrInet4{Port: int(p), Addr: [4]byte(b)}, nil
	case family == unix.AF_INET6 && len(b) == 16:
		a := &unix.SockaddrInet6{Port: int(p), Addr: [16]byte(b)}
		if name, _ := m.Bytes(img.InetIfname); len(name) > 0 {
			i, err := net.InterfaceByName(string(name))
			if err != nil {
				return nil, fmt.Errorf("the network interface %s, by which the task had a socket: %w", name, err)
			}
			a.ZoneId = uint32(i.Index)
		}
		return a, nil
	}
	return nil, errors.New("a socket in the images has no address that is known")
}

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

// tryPorts says which port the task's user cannot have now. Bind would find out too late:
// connections are lost with a restored tree that has to be ended.
func (h *Opened) tryPorts(user linux.Credentials) error {
	return linux.AsUser(user, func() error {
		for _, b := range h.bound {
			if err := b.try(); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) { // it may not have needed that address
				return b.taken(err)
			}
		}
		return nil
	})
}

func (b bound) taken(err error) error {
	return fmt.Errorf("port %d, which the task had, cannot be had: %w; end what has it, or restore the task later", portOf(b.address), err)
}

// try binds a socket that is alike, for a moment. One of streams needs SO_REUSEADDR beside the connections that its port has had; of
// datagrams it would let it have a port together with somebody else.
func (b bound) try() error {
	fd, err := unix.Socket(b.family, b.kind|unix.SOCK_CLOEXEC, b.proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	reuseAddr := b.reuseAddr
	if b.kind == unix.SOCK_STREAM {
		reuseAddr = 1
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, reuseAddr), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, b.reusePort))
	if b.family == unix.AF_INET6 {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, b.v6only))
	}
	if err != nil {
		return err
	}
	return b.bind(fd)
}

// Bind gives the sockets of the restored tree, which stands still, their ports. They must
// have their owners: the kernel asks these whether they may. An error means that the tree
// must be ended.
func (h *Opened) Bind() (err error) {
	if h == nil {
		return nil
	}
	// Those of the task that have the same port share it meanwhile, as a socket does with
	// the connections that it has accepted (unbind).
	for _, d := range h.sharing {
		back, err := d.share()
		if err != nil {
			return fmt.Errorf("socket %d of process %d: %w", d.FD, d.PID, err)
		}
		defer back()
	}
	for _, step := range []func(bound, int) error{bound.bind, bound.goOn} {
		for _, b := range h.bound {
			if err := b.with(func(fd int) error { return step(b, fd) }); err != nil {
				return b.taken(err)
			}
		}
	}
	return nil
}

// held is a socket of a process.
type held linux.Descriptor

func (d held) with(do func(fd int) error) error {
	fd, err := linux.Descriptor(d).Duplicate()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// share lets others have the port; back undoes it.
func (s sharer) share() (back func(), err error) {
	address, err := s.setOption(unix.SO_REUSEADDR)
	if err != nil || !s.listeners {
		return address, err
	}
	port, err := s.setOption(unix.SO_REUSEPORT)
	return func() { port(); address() }, err
}

// setOption sets an option to 1; back undoes it.
func (d held) setOption(option int) (back func(), err error) {
	set := func(v int) error {
		return d.with(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, v) })
	}
	var was int
	err = d.with(func(fd int) (err error) {
		was, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		return err
	})
	if err == nil && was == 0 {
		err = set(1)
	}
	return func() {
		if was == 0 {
			set(0)
		}
	}, err
}

func (b bound) bind(fd int) error { return unix.Bind(fd, b.address) }

// goOn does what comes after bind.
func (b bound) goOn(fd int) (err error) {
	if b.listens {
		err = unix.Listen(fd, b.backlog)
	}
	if err == nil && b.peer != nil {
		err = unix.Connect(fd, b.peer)
	}
	if err == nil && b.shut >= 0 {
		if err = unix.Shutdown(fd, b.shut); err == unix.ENOTCONN { // said of one without a peer, which is shut all the same
			err = nil
		}
	}
	return err
}
