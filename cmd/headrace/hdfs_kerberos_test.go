package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"headrace/blob"
	"headrace/hdfs"
	"headrace/hdfs/hdfstest"
	"headrace/internal/testkit"
	"headrace/wire"
)

// TestHDFSWithKerberos has files of an HDFS that lets in only who proves who they are warmed by whoever may read them there.
func TestHDFSWithKerberos(t *testing.T) {
	super := func(s *hdfstest.Secure) hdfs.Options {
		return hdfs.Options{NameNodes: []string{s.URL()}, Kerberos: &hdfs.Kerberos{Principal: hdfstest.Superuser, Keytab: s.Keytab, Config: s.Config}}
	}
	s := hdfstest.GetSecure(t, func(ctx context.Context, s *hdfstest.Secure) error {
		fs, err := hdfs.New(super(s))
		if err != nil {
			return err
		}
		fs.RemoveAll(ctx, "/probe")
		return fs.Create(ctx, "/probe", 0o600, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
	}, "dfs.blocksize", fmt.Sprint(hdfsBlock))
	t.Setenv("KRB5_CONFIG", s.Config)
	c := startHDFSCluster(t, s.HDFS, super(s), "--hdfs", "test="+s.URL(), "--hdfs-principal", hdfstest.Proxy, "--hdfs-keytab", s.Keytab)
	const size = 2*hdfsBlock + 5
	c.write("/data/a", size, 0o644)
	c.write("/private/b", size, 0o600)
	for _, path := range c.blockFiles() {
		testkit.DropFile(t, path)
	}
	if out := c.must("warm", "--wait", "--job", "application_1", "hdfs://test/data/a"); !strings.Contains(out, "1 file, 2.1 MB in 3 blocks: 2.1 MB in memory") {
		t.Errorf("warm: %s", out)
	}
	c.await("it to be kept", func(s *wire.InputsStatus) bool { return s.State == "done" && s.Pinned+s.Resident == size })
	// Root is nobody special to HDFS.
	if out, errs, err := c.run("warm", "hdfs://test/private/b"); err == nil || !strings.Contains(errs, "denied") {
		t.Errorf("root warms what only hdfs may read: %v, %s%s", err, out, errs)
	}

	// What is to go on elsewhere may lie there, too.
	who := url.Values{"principal": {hdfstest.Superuser}, "keytab": {s.Keytab}}
	open, err := blob.Find("webhdfs://" + strings.TrimPrefix(s.URL(), "http://") + "/apps/headrace?" + who.Encode())
	if err != nil {
		t.Fatal(err)
	}
	place, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := place.Create(t.Context(), "a", func(w io.Writer) error { _, err := io.WriteString(w, "memory"); return err }); err != nil {
		t.Fatal(err)
	}
	r, err := place.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "memory" {
		t.Errorf("read %q, %v", b, err)
	}
}
