package node

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"headrace/wire"
	"headrace/wire/wireconnect"
)

// TestTLS: a manager is believed when its certificate is known, and else nothing is
// told to it, the token least of all.
func TestTLS(t *testing.T) {
	f := &fakeManager{t: t, changed: make(chan struct{})}
	mux := http.NewServeMux()
	path, handler := wireconnect.NewManagerServiceHandler(f)
	mux.Handle(path, handler)
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger, err := NewClient(server.URL, testToken, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := stranger.Containers(ctx, &wire.ContainersRequest{}); err == nil || f.asked != 0 {
		t.Errorf("a certificate that nobody knows is accepted: %v", err)
	}
	_, _, stop := run(t, f, newHost("c1"), func(c *Config) { c.Manager, c.CA = server.URL, ca })
	f.until("a report", func() bool { return len(f.reports) > 0 })
	stop()
	known, err := NewClient(server.URL, testToken, ca)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := known.Containers(ctx, &wire.ContainersRequest{}); err != nil {
		t.Error(err)
	}
}
