package member

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	"headrace/dfs"
	"headrace/dfs/peer"
)

// webPath is that of requests of WebHDFS at the port of the nodes.
const webPath = "/passed/webhdfs"

// Headers by which a node tells the one that leads who has sent a request, from where, and for what: a path on the way would be
// cleaned. They are believed on the port of the nodes alone; what a client has sent under these names is overwritten.
const (
	userHeader   = "Headrace-User"
	remoteHeader = "Headrace-Remote"
	uriHeader    = "Headrace-URI"
)

// errMisdirected: the node that was asked does not lead.
var errMisdirected = errors.New("it does not lead the names")

// passedWeb takes requests of other nodes.
func (m *Circle) passedWeb(h func(w http.ResponseWriter, r *http.Request, user string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, remote := r.Header.Get(userHeader), r.Header.Get(remoteHeader)
		if !m.node.Leads() || user == "" {
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		u, err := url.ParseRequestURI(r.Header.Get(uriHeader))
		if err != nil {
			http.Error(w, "no request that was passed on", http.StatusBadRequest)
			return
		}
		r.URL, r.RequestURI, r.RemoteAddr = u, u.RequestURI(), remote
		h(w, r, user)
	})
}

// PassWeb has the node that leads answer a request of a client, whose name was looked at, if that is another one. It reports whether it has
// answered; an error is that nobody leads, or that the one who does was lost before it has answered.
func (m *Circle) PassWeb(w http.ResponseWriter, r *http.Request, user string) (answered bool, err error) {
	err = m.lead(r.Context(), func() (bool, error) { return false, nil }, func(leader dfs.Member) (bool, error) {
		err := m.passWeb(w, r, user, leader)
		answered = err == nil
		return r.Body == http.NoBody && (errors.Is(err, errMisdirected) || unheard(err)), err
	})
	return answered, err
}

func (m *Circle) passWeb(w http.ResponseWriter, r *http.Request, user string, leader dfs.Member) (err error) {
	(&httputil.ReverseProxy{
		Transport: m.Port.Bulk().Transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(m.Log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "https", Host: leader.PeerAddress(), Path: webPath}
			p.Out.Host = p.In.Host // the address by which the client has reached this node
			m.naming(leader.Name).set(p.Out.Header)
			p.Out.Header.Set(userHeader, user)
			if p.In.Body != http.NoBody { // whoever is redirected keeps the bytes
				p.Out.Header.Set("Expect", "100-continue")
			}
			p.Out.Header.Set(remoteHeader, p.In.RemoteAddr)
			p.Out.Header.Set(uriHeader, p.In.URL.RequestURI())
		},
		ModifyResponse: func(a *http.Response) error {
			if a.StatusCode == http.StatusMisdirectedRequest {
				return errMisdirected
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, e error) { err = e },
	}).ServeHTTP(w, r)
	return err
}

// unheard reports whether nobody has heard what failed.
func unheard(err error) bool { return errors.Is(err, peer.ErrUnheard) }
