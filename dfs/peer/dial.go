package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

const (
	dialTime = 3 * time.Second
	// A node that has lost its power closes nothing: what waits for it hears of that after these.
	silence, answerTime = 3 * time.Second, 3 * time.Second
	// continueTime is how long a body waits, whose request says so, for somebody to want it.
	continueTime = 30 * time.Second
)

// ErrUnheard is the error of what nobody has heard, because there is no connection.
var ErrUnheard = errors.New("there is no connection")

// Dial connects to the port of another node, HOST:PORT, for a protocol that has a Stream there.
func (p *Port) Dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	return p.secret.dial(ctx, address, protocol)
}

func (s *Secret) dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	short, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: s.config(protocol)}
	nc, err := d.DialContext(short, "tcp", address)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		err = errMute // whoever asked has time left, which an error of a context would deny
	}
	if err != nil {
		return nil, fmt.Errorf("%w to the node at %s: %w", ErrUnheard, address, err)
	}
	if got := nc.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != protocol {
		nc.Close()
		return nil, fmt.Errorf("the node at %s does not speak %s", address, protocol)
	}
	return nc, nil
}

var errMute = fmt.Errorf("it has not answered within %v", dialTime)

// Client returns what reaches the handlers of other nodes, by https://HOST:PORT. It has one connection to each, which all
// requests share: it is for short ones, whose handlers read them at once, because one that is not read stops all others. Requests have no
// time limit but that of their context.
func (p *Port) Client() *http.Client { return p.client }

// Bulk returns what reaches the same handlers, with a connection for each request: bodies may be long, and wait. None is kept: of one that
// the other end has closed meanwhile nobody knows whether a request was heard.
func (p *Port) Bulk() *http.Client { return p.bulk }

func newClient(s *Secret, protocol string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialTLSContext:    func(ctx context.Context, _, address string) (net.Conn, error) { return s.dial(ctx, address, protocol) },
		DisableKeepAlives: protocol == h1, Protocols: protocols(protocol), HTTP2: &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: answerTime},
		IdleConnTimeout: time.Minute, ExpectContinueTimeout: continueTime, DisableCompression: true,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func protocols(names ...string) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(slices.Contains(names, h1))
	p.SetHTTP2(slices.Contains(names, h2))
	return p
}
