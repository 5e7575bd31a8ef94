package hdfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/spnego"
)

// Kerberos says who to be at a cluster with security, and has what proves it.
type Kerberos struct {
	// Principal is NAME@REALM or NAME/HOST@REALM.
	Principal string
	// Keytab is a file with its keys. It is read whenever they are needed, so that it may be replaced.
	Keytab string
	// Config is a krb5.conf; empty: $KRB5_CONFIG, or /etc/krb5.conf. Files that it includes are not read.
	Config string
}

// check says what is wrong with it, as far as that can be seen here.
func (k *Kerberos) check() error {
	c, err := k.client()
	if err == nil {
		c.Destroy()
	}
	return err
}

// client returns one that has not logged in yet. The caller destroys it.
func (k *Kerberos) client() (*client.Client, error) {
	name, realm, ok := strings.Cut(k.Principal, "@")
	if !ok || name == "" || realm == "" {
		return nil, fmt.Errorf("HDFS: %q is no principal; give NAME@REALM or NAME/HOST@REALM", k.Principal)
	}
	keys, err := keytab.Load(k.Keytab)
	if err != nil {
		return nil, fmt.Errorf("HDFS: keytab %s: %w", k.Keytab, err)
	}
	has := false
	for _, e := range keys.Entries {
		has = has || e.Principal.String() == k.Principal
	}
	if !has {
		return nil, fmt.Errorf("HDFS: keytab %s has no keys of %s; klist -k tells of whom it has", k.Keytab, k.Principal)
	}
	path := cmp.Or(k.Config, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf")
	conf, err := config.Load(path)
	if unsupported := (config.UnsupportedDirective{}); err != nil && !errors.As(err, &unsupported) {
		return nil, fmt.Errorf("HDFS: %s: %w", path, err)
	}
	return client.NewWithKeytab(name, realm, keys, conf, client.DisablePAFXFAST(true)), nil
}

// proving returns a client like given that proves who it is wherever it is asked to.
func (k *Kerberos) proving(given *http.Client) *http.Client {
	c := *given
	c.Transport = &prover{k, given.Transport}
	if given.Transport == nil {
		c.Transport = &prover{k, http.DefaultTransport}
	}
	c.Jar, _ = cookiejar.New(nil) // what it is given for a proof; it has no other error than that of options
	return &c
}

// A prover is a transport that answers a server's wish for a proof of Kerberos (SPNEGO, RFC 4559). A name node takes one for hours: the
// cookie that it gives in turn is kept with the client.
type prover struct {
	kerberos *Kerberos
	next     http.RoundTripper
}

func (p *prover) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(q)
	// Requests with a body go to data nodes, which a name node has given a token for.
	if err != nil || resp.StatusCode != http.StatusUnauthorized || q.Body != nil || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Negotiate") {
		return resp, err
	}
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // or the connection is lost
	resp.Body.Close()
	again := q.Clone(q.Context())
	if err := p.prove(again); err != nil {
		return nil, err
	}
	return p.next.RoundTrip(again)
}

// prove logs in anew for each proof: there are few, and nothing has to be renewed in between.
func (p *prover) prove(q *http.Request) error {
	c, err := p.kerberos.client()
	if err != nil {
		return err
	}
	defer c.Destroy()
	if err := spnego.SetSPNEGOHeader(c, q, "HTTP/"+q.URL.Hostname()); err != nil {
		return fmt.Errorf("prove to be %s: %w", p.kerberos.Principal, err)
	}
	return nil
}
