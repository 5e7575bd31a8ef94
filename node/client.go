package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"headrace/wire/wireconnect"
)

// maxAnswer is the largest message that is read, in bytes.
const maxAnswer = 512 << 20

// NewClient serves those who ask a manager something without being a node. ca is as in
// Config. Calls take as long as their contexts allow.
func NewClient(manager, token, ca string) (wireconnect.ManagerServiceClient, error) {
	l, err := dial(manager, token, ca, usualTiming.call)
	if err != nil {
		return nil, err
	}
	return l.manager(), nil
}

// NewInputClient is NewClient for what a manager knows of files.
func NewInputClient(manager, token, ca string) (wireconnect.InputServiceClient, error) {
	l, err := dial(manager, token, ca, usualTiming.call)
	if err != nil {
		return nil, err
	}
	return l.inputs(), nil
}

// line is how a manager is reached.
type line struct {
	client    withToken
	base      string
	transport *http.Transport
}

func (l *line) manager() wireconnect.ManagerServiceClient {
	return wireconnect.NewManagerServiceClient(l.client, l.base, connect.WithReadMaxBytes(maxAnswer))
}

func (l *line) inputs() wireconnect.InputServiceClient {
	return wireconnect.NewInputServiceClient(l.client, l.base, connect.WithReadMaxBytes(maxAnswer))
}

func dial(manager, token, ca string, within time.Duration) (*line, error) {
	u, err := url.Parse(manager)
	if err == nil && u.User != nil {
		return nil, errors.New("the manager's address names a user; give http://HOST:PORT or https://HOST:PORT, and the token with --token-file")
	}
	if err == nil && u.Port() != "" {
		_, err = strconv.ParseUint(u.Port(), 10, 16)
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, fmt.Errorf("manager %q: give its address as http://HOST:PORT or https://HOST:PORT", manager)
	}
	if token == "" {
		return nil, errors.New("there is no token; give the file that the manager has with --token-file")
	}
	transport := &http.Transport{
		// No proxy: the manager is in the cluster.
		DialContext:         (&net.Dialer{Timeout: within}).DialContext,
		TLSHandshakeTimeout: within, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}
	if ca != "" {
		if u.Scheme != "https" {
			return nil, fmt.Errorf("manager %s: certificates are for https://", manager)
		}
		if transport.TLSClientConfig, err = trust(ca); err != nil {
			return nil, err
		}
	}
	return &line{withToken{&http.Client{Transport: transport}, "Bearer " + token}, u.Scheme + "://" + u.Host, transport}, nil
}

func trust(file string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the certificates: there are none in PEM in %s", file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// withToken adds the token to requests.
type withToken struct {
	client *http.Client
	header string
}

// Do sends a request.
func (w withToken) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", w.header)
	return w.client.Do(r)
}
