package hdfs_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"headrace/hdfs"
	"headrace/hdfs/hdfstest"
)

// counter counts the requests that a name node has refused for want of a proof.
type counter struct {
	http.RoundTripper
	refused atomic.Int64
}

func (c *counter) RoundTrip(q *http.Request) (*http.Response, error) {
	r, err := c.RoundTripper.RoundTrip(q)
	if err == nil && r.StatusCode == http.StatusUnauthorized {
		c.refused.Add(1)
	}
	return r, err
}

func proven(s *hdfstest.Secure, principal string, transport http.RoundTripper) (*hdfs.Client, error) {
	return hdfs.New(hdfs.Options{NameNodes: []string{s.URL()}, Client: &http.Client{Transport: transport},
		Kerberos: &hdfs.Kerberos{Principal: principal, Keytab: s.Keytab, Config: s.Config}})
}

func write(ctx context.Context, c *hdfs.Client, path string, mode fs.FileMode) error {
	return c.Create(ctx, path, mode, func(w io.Writer) error { _, err := io.WriteString(w, "water"); return err })
}

// TestKerberos: a name node that wants proof gets it from a keytab, once, and has a proxy user act for those that it may act for.
func TestKerberos(t *testing.T) {
	s := hdfstest.GetSecure(t, func(ctx context.Context, s *hdfstest.Secure) error {
		c, err := proven(s, hdfstest.Superuser, nil)
		if err != nil {
			return err
		}
		c.RemoveAll(ctx, "/probe")
		return write(ctx, c, "/probe", 0o600)
	})
	ctx := t.Context()
	client := func(principal string, transport http.RoundTripper) *hdfs.Client {
		c, err := proven(s, principal, transport)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	asked := &counter{RoundTripper: http.DefaultTransport}
	super := client(hdfstest.Superuser, asked)
	if err := errors.Join(write(ctx, super, "/public", 0o644), write(ctx, super, "/private", 0o600)); err != nil {
		t.Fatal(err)
	}
	if n := asked.refused.Load(); n != 1 {
		t.Errorf("%d of two requests were refused at first, want 1", n)
	}

	proxy := client(hdfstest.Proxy, nil)
	read := func(c *hdfs.Client, path string) error {
		r, err := c.Open(ctx, path)
		if err != nil {
			return err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err == nil && string(b) != "water" {
			t.Errorf("%s has %q", path, b)
		}
		return err
	}
	as := func(user string) *hdfs.Client {
		c, err := proxy.As(user)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := read(as("alice"), "/public"); err != nil {
		t.Error(err)
	}
	if err := read(as("alice"), "/private"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("alice reads what is private: %v", err)
	}
	if err := read(as("bob"), "/public"); !errors.Is(err, hdfs.ErrProxy) || !strings.Contains(err.Error(), "hadoop.proxyuser.headrace.users") {
		t.Errorf("the proxy acts for bob: %v", err)
	}
	if blocks, err := as("alice").Blocks(ctx, "/public", 0); err != nil || len(blocks) != 1 {
		t.Errorf("blocks %v, %v", blocks, err)
	}
	if _, err := proxy.Of("hdfs"); err == nil {
		t.Error("a client with a proof becomes another without one")
	}
	mallory, err := client("mallory@"+hdfstest.Realm, nil).As("alice")
	if err != nil {
		t.Fatal(err)
	}
	if err := read(mallory, "/public"); !errors.Is(err, hdfs.ErrProxy) {
		t.Errorf("mallory acts for alice: %v", err)
	}

	plain, err := hdfs.New(hdfs.Options{NameNodes: []string{s.URL()}, User: "hdfs"})
	if err != nil {
		t.Fatal(err)
	}
	if err := read(plain, "/public"); err == nil || !strings.Contains(err.Error(), "keytab") {
		t.Errorf("without a proof: %v", err)
	}
	if _, err := proven(s, "nobody@"+hdfstest.Realm, nil); err == nil || !strings.Contains(err.Error(), "klist") {
		t.Errorf("a principal without keys: %v", err)
	}
	if err := read(client(hdfstest.Superuser, nil), "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}
