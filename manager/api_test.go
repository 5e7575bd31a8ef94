package manager

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// stuckJoin joins and reads nothing of what comes.
func stuckJoin(t *testing.T, s *site, name string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"node":%q}`, name)
	frame := append([]byte{0, 0, 0, 0, byte(len(body))}, body...)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s",
		wireconnect.ManagerServiceJoinProcedure, testToken, len(frame), frame)
	testkit.Await(t, "the node to join", func() bool {
		s.cluster.mu.Lock()
		defer s.cluster.mu.Unlock()
		n := s.cluster.members.all[name]
		return n != nil && n.stream != nil
	})
	return conn
}

// TestStrangers: nobody gets anything without the token.
func TestStrangers(t *testing.T) {
	s := start(t, nil)
	s.machine("n1", task("c1"))
	for _, token := range []string{"", "x", testToken + "0", testToken[:31], strings.ToUpper(testToken)} {
		api := s.client(token)
		ctx := context.Background()
		calls := map[string]func() error{
			"report":     func() error { _, err := api.Report(ctx, &wire.NodeReport{Node: "n1"}); return err },
			"preempt":    func() error { _, err := api.Preempt(ctx, &wire.PreemptRequest{}); return err },
			"resume":     func() error { _, err := api.Resume(ctx, &wire.ResumeRequest{Container: "c1"}); return err },
			"containers": func() error { _, err := api.Containers(ctx, &wire.ContainersRequest{}); return err },
			"nodes":      func() error { _, err := api.Nodes(ctx, &wire.NodesRequest{}); return err },
			"join": func() error {
				stream, err := api.Join(ctx, &wire.JoinRequest{Node: "n1"})
				if err == nil {
					for stream.Receive() {
						t.Error("a stranger got an order")
					}
					err = stream.Err()
				}
				return err
			},
		}
		for name, call := range calls {
			if err := call(); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("%s with the token %q: %v", name, token, err)
			}
		}
	}
	if s.container("c1") == nil {
		t.Error("a stranger has changed something")
	}
	if n := s.log.count("refused"); n != 1 {
		t.Errorf("%d lines about strangers:\n%s", n, s.log)
	}
	if strings.Contains(s.log.String(), testToken) {
		t.Error("the token is in the log")
	}
}

// TestSlowCallers: nobody holds a connection by sending a request that does not end.
func TestSlowCallers(t *testing.T) {
	const send = 2 * time.Second
	s := start(t, func(c *Config) { c.timing.send = send })
	var callers sync.WaitGroup
	for _, procedure := range []string{wireconnect.ManagerServiceJoinProcedure, wireconnect.ManagerServiceContainersProcedure} {
		for _, token := range []string{"", testToken} {
			if token != "" && procedure != wireconnect.ManagerServiceJoinProcedure {
				continue // bounded by timing.request
			}
			callers.Go(func() {
				conn, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/connect+json\r\nContent-Length: 100\r\n\r\n{", procedure, token)
				conn.SetReadDeadline(time.Now().Add(patience))
				if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s with the token %q: the connection is still open", procedure, token)
				}
			})
		}
	}
	callers.Wait()
	// A node that has joined may be silent for longer.
	conn := stuckJoin(t, s, "n1")
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(send + send/2))
	if _, err := io.Copy(io.Discard, conn); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the stream of a node has ended: %v", err)
	}
}

// TestGiantRequests: what is too large is refused, whatever it is packed in.
func TestGiantRequests(t *testing.T) {
	s := start(t, nil)
	giant := `{"container":"` + strings.Repeat("x", maxRequest) + `"}`
	if status, body := s.post(t, "Resume", giant); status == 200 || !strings.Contains(body, "resource_exhausted") {
		t.Errorf("giant: %d %s", status, body)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, giant)
	z.Close()
	if status, body := s.post(t, "Resume", packed.String(), "Content-Encoding", "gzip"); status == 200 || !strings.Contains(body, "resource_exhausted") {
		t.Errorf("giant, packed: %d %s", status, body)
	}
	if status, body := s.post(t, "Preempt", strings.Repeat(`{"victims":[`, 100_000)); status != 400 {
		t.Errorf("deep: %d %s", status, body)
	}
	if status, body := s.post(t, "Nodes", "{}"); status != 200 {
		t.Errorf("afterwards: %d %s", status, body)
	}
}

// post returns a request as a plug-in that knows only HTTP and JSON makes it.
func (s *site) post(t *testing.T, method, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest("POST", s.url()+"/headrace.v1.ManagerService/"+method, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+testToken)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestPlainHTTP(t *testing.T) {
	s := start(t, nil)
	s.machine("n1", task("c1"))
	for _, c := range []struct {
		method, body string
		status       int
		want         string
	}{
		{"Containers", `{}`, 200, `"id":"c1"`},
		{"Containers", `{"version":"0","wait":0.1}`, 200, `"nodes":1`},
		{"Containers", `{"version":0,"wait":"NaN"}`, 200, `"id":"c1"`},
		{"Containers", `{"version":1}`, 400, "another manager"},
		{"Preempt", `{"victims":[{"container":"c1"},{"container":"zzz"}],"observe":true}`, 200, `"by":"MECHANISM_SUSPEND"`},
		{"Preempt", `{"victims":[{"container":"c1","forPriority":12}]}`, 400, "from 0 to 11"},
		{"Resume", `{"container":"c1"}`, 200, `{}`},
		{"Resume", `{"container":"zzz"}`, 404, "not known here"},
		{"Report", `{"node":"n2"}`, 400, "join"},
		{"Report", `{"node":"a b"}`, 400, "not the name of a node"},
		{"Report", `{"node":"n1","tasks":[{"id":"c/1","state":"running","hosting":{}}]}`, 400, "not the name of a container"},
		{"Report", `{"node":"n1","tasks":[{"id":"c1","state":"walking","hosting":{}}]}`, 400, "walking"},
		{"Report", `{"node":"n1","tasks":[{"id":"c1","state":"running","hosting":{},"cpus":"NaN"}]}`, 400, "no amounts"},
		{"Report", `{"node":"n1","tasks":[{"id":"c1","state":"running","hosting":{},"memory":"-1"}]}`, 400, "no amounts"},
		{"Nodes", `{}`, 200, `"policy":"suspend"`},
		{"Nodes", `{`, 400, ""},
	} {
		status, body := s.post(t, c.method, c.body)
		if status != c.status || !strings.Contains(strings.ReplaceAll(body, `": `, `":`), c.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.body, status, body, c.status, c.want)
		}
	}
	if status, _ := s.post(t, "Nodes", `{}`, "Authorization", "Basic "+testToken); status != 401 {
		t.Errorf("another scheme: status %d", status)
	}
	if status, _ := s.post(t, "Nodes", `x`, "Authorization", "", "Content-Type", "text/plain"); status != 401 {
		t.Errorf("another type, no token: status %d", status)
	}
}

// TestOneApplication: who asks for one application gets its containers only.
func TestOneApplication(t *testing.T) {
	s := start(t, nil)
	other := task("c2")
	other.Hosting.Application = "application_2"
	s.machine("n1", task("c1"), other)
	for application, want := range map[string]string{"": "c1 c2 ", "application_1": "c1 ", "application_2": "c2 ", "application_3": ""} {
		res, err := s.api.Containers(t.Context(), &wire.ContainersRequest{Application: application})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range res.Containers {
			got += c.Id + " "
		}
		if got != want || res.Nodes != 1 || res.Version == 0 {
			t.Errorf("%q: %q of %v, want %q", application, got, res, want)
		}
		res, err = s.api.Containers(t.Context(), &wire.ContainersRequest{Application: application, Version: res.Version, Wait: 0.01})
		if err != nil || strings.Count(want, " ") != len(res.Containers) {
			t.Errorf("%q, after a wait: %v, %v", application, res, err)
		}
	}
}

// TestLongPoll: a change is told at once, and only then.
func TestLongPoll(t *testing.T) {
	s := start(t, nil)
	m := s.machine("n1", task("c1"))
	defer m.keep()()
	version := s.containers(0, 0).Version
	began := time.Now()
	if res := s.containers(version, 0.3); res.Version != version || time.Since(began) < 300*time.Millisecond || len(res.Containers) != 1 {
		t.Errorf("nothing changed: %v after %v", res, time.Since(began))
	}
	got := make(chan *wire.ContainersResponse, 1)
	go func() {
		res, _ := s.api.Containers(context.Background(), &wire.ContainersRequest{Version: version, Wait: 25})
		got <- res
	}()
	s.preempt("c1")
	select {
	case res := <-got:
		if res.Version <= version || res.Containers[0].Ordered != "suspend" {
			t.Errorf("%v", res)
		}
	case <-time.After(patience):
		t.Fatal("the change is not told")
	}
	// A stopping manager answers those who wait.
	version = s.containers(0, 0).Version
	go func() {
		res, _ := s.api.Containers(context.Background(), &wire.ContainersRequest{Version: version, Wait: 25})
		got <- res
	}()
	time.Sleep(20 * time.Millisecond) // most likely it waits by now; both ways it is answered, or refused
	s.stop()
	select {
	case <-got:
	case <-time.After(patience):
		t.Fatal("nobody is answered when the manager stops")
	}
}

// TestAside: who asks for those that do not only run hears nothing of others, also not that they come
// and go, and of these as long as something may still follow.
func TestAside(t *testing.T) {
	s := start(t, nil)
	c1 := task("c1")
	m := s.machine("n1", c1, task("c2"))
	defer m.keep()()
	has := func(tasks ...*wire.Task) {
		m.mu.Lock()
		m.tasks = tasks
		m.mu.Unlock()
		m.report()
	}
	ask := func(version uint64, wait float64) *wire.ContainersResponse {
		t.Helper()
		res, err := s.api.Containers(t.Context(), &wire.ContainersRequest{Version: version, Wait: wait, Aside: true})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first, all := ask(0, 0), s.containers(0, 0)
	has(c1, task("c2"), task("c3"))
	has(c1, task("c3"))
	if res := ask(first.Version, 0.1); res.Version != first.Version || len(res.Containers) != 0 || s.containers(0, 0).Version < all.Version+2 {
		t.Errorf("one that runs has come and one has gone: %v, %v before", res, first)
	}
	told := func(what string, ok func(*wire.Container) bool) {
		t.Helper()
		for version, end := uint64(0), time.Now().Add(patience); ; {
			res := ask(version, 1)
			if len(res.Containers) == 1 && res.Containers[0].Id == "c1" && ok(res.Containers[0]) {
				return
			}
			if version = res.Version; time.Now().After(end) {
				t.Fatalf("not told that it is %s, but %v", what, res)
			}
		}
	}
	s.preempt("c1")
	told("ordered", func(c *wire.Container) bool { return c.Command == wire.Command_COMMAND_SUSPEND })
	m.finish(m.order(), "no")
	told("running, with the reason", func(c *wire.Container) bool { return c.Command == 0 && strings.Contains(c.Reason, "no") })
	m.set("c1", func(t *wire.Task) { t.Preemptions, t.SinceMs = 1, t.SinceMs+1 })
	m.report()
	told("running again", func(c *wire.Container) bool { return c.Preemptions == 1 && c.Reason == "" })
	has(task("c3"))
	if res := ask(0, 0); len(res.Containers) != 0 {
		t.Errorf("after its end: %v", res)
	}
}

// TestNothingNew: measurements alone are no change.
func TestNothingNew(t *testing.T) {
	s := start(t, nil)
	m := s.machine("n1", task("c1"))
	version := s.containers(0, 0).Version
	for i := range 10 {
		m.set("c1", func(t *wire.Task) { t.Usage.Resident, t.Progress = int64(i), float64(i)/10 })
		m.report()
	}
	if v := s.containers(0, 0).Version; v != version {
		t.Errorf("version %d, was %d", v, version)
	}
}

func TestMetricsAndHealth(t *testing.T) {
	const before = "the token of before"
	s := start(t, func(c *Config) { c.AcceptedTokens = []string{before} })
	m := s.machine("n1", task("c1"), task("c2"))
	s.preempt("c1")
	m.finish(m.order(), "")
	if got := s.get("/healthz"); got != "200 ok\n" {
		t.Errorf("health: %q", got)
	}
	health := &recorder{header: http.Header{}}
	r, _ := http.NewRequest("GET", "/healthz", nil)
	if s.handler().ServeHTTP(health, r); health.header.Get("Connection") != "close" {
		t.Errorf("the connection stays: %v", health.header)
	}
	metrics := s.get("/metrics")
	for _, want := range []string{
		`headrace_manager_nodes{away="false"} 1`, `headrace_manager_containers{state="suspended"} 1`, `headrace_manager_containers{state="running"} 1`,
		`headrace_manager_decisions_total{mechanism="suspend",observe="false"} 1`, `headrace_manager_orders_total{verb="suspend"} 1`,
		`headrace_manager_orders_over_total{how="done",verb="suspend"} 1`, `headrace_manager_orders_outstanding 0`,
		`headrace_manager_order_seconds_count{verb="suspend"} 1`, `headrace_manager_following_applications 0`, `headrace_manager_warm_pinned_bytes 0`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	testkit.WantAlarms(t, metrics, func(metric string) bool { return strings.HasPrefix(metric, "headrace_manager_") })
	if !strings.HasPrefix(s.get("/other"), "404") {
		t.Error("anything is served")
	}
	// From other machines only with the token.
	h := s.handler()
	for token, want := range map[string]int{"": 401, testToken: 200, before: 200, before + "!": 401} {
		r, _ := http.NewRequest("GET", "/metrics", nil)
		r.RemoteAddr = "192.0.2.1:999"
		r.Header.Set("Authorization", "Bearer "+token)
		w := &recorder{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.status != want {
			t.Errorf("metrics from elsewhere with the token %q: %d", token, w.status)
		}
	}
}

type recorder struct {
	header http.Header
	status int
	bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(s int)   { r.status = s }
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = 200
	}
	return r.Buffer.Write(b)
}

func TestConfigErrors(t *testing.T) {
	good := Config{Listen: "127.0.0.1:0", Token: testToken}
	for want, change := range map[string]func(*Config){
		"HOST:PORT":       func(c *Config) { c.Listen = "here" },
		"at least":        func(c *Config) { c.Token = "short" },
		"unknown policy":  func(c *Config) { c.Policy.Policy = policy.Name("best") },
		"go together":     func(c *Config) { c.Cert = "x" },
		"read the certif": func(c *Config) { c.Cert, c.Key = "/nowhere", "/nowhere" },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s := start(t, nil)
	taken := good
	taken.Listen = s.Addr().String()
	m, err := New(taken)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("a second manager: %v", err)
	}
}

func TestTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	s := start(t, func(c *Config) { c.Cert, c.Key = cert, key })
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
		defer transport.CloseIdleConnections()
		api := wireconnect.NewManagerServiceClient(tokenClient{&http.Client{Transport: transport}, testToken}, "https://"+s.Addr().String())
		if _, err := api.Nodes(context.Background(), &wire.NodesRequest{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.client(testToken).Nodes(context.Background(), &wire.NodesRequest{}); err == nil {
		t.Error("it also answers without TLS")
	}
}

// TestGRPC: what speaks HTTP/2 without TLS is served as well.
func TestGRPC(t *testing.T) {
	s := start(t, nil)
	s.machine("n1", task("c1"))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	api := wireconnect.NewManagerServiceClient(tokenClient{&http.Client{Transport: transport}, testToken}, s.url(), connect.WithGRPC())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if res, err := api.Containers(ctx, &wire.ContainersRequest{}); err != nil || len(res.Containers) != 1 {
		t.Fatalf("%v, %v", res, err)
	}
	stream, err := api.Join(ctx, &wire.JoinRequest{Node: "n2"})
	if err != nil || !stream.Receive() {
		t.Fatalf("%v, %v", err, stream.Err())
	}
	stream.Close()
	stranger := wireconnect.NewManagerServiceClient(tokenClient{&http.Client{Transport: transport}, "x"}, s.url(), connect.WithGRPC())
	if _, err := stranger.Nodes(ctx, &wire.NodesRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a stranger: %v", err)
	}
}

// certificate makes one for 127.0.0.1.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", keyDER), pool
}

// TestSilentCallers: who sends nothing loses the connection when others come, or after a while; nodes that are
// there, and who has the token, do not notice.
func TestSilentCallers(t *testing.T) {
	s := start(t, func(c *Config) { c.timing.prove = 5 * time.Second })
	n := s.machine("n1", task("c1"))
	var silent []net.Conn
	for range 20 {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	io.WriteString(silent[0], "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // HTTP/2 lets who asks nothing wait for minutes
	for i, conn := range silent {
		conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d is still open", i)
		}
	}
	n.report()
	s.preempt("c1")
	if o := n.order(); o.Container != "c1" {
		t.Errorf("the order is about %s", o.Container)
	}
}

// TestBoundsOfThePlugin: the plug-in of the ResourceManager sends as much at a time as is taken here.
func TestBoundsOfThePlugin(t *testing.T) {
	source, err := os.ReadFile("../java/client/src/main/java/headrace/client/ManagerClient.java")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"MOST_VICTIMS": maxVictims, "MOST_ENDED": maxEnded} {
		found := regexp.MustCompile(`static final int ` + name + ` = ([0-9_]+);`).FindSubmatch(source)
		if found == nil {
			t.Errorf("the plug-in has no %s", name)
		} else if got, err := strconv.ParseInt(string(found[1]), 0, 64); err != nil || int(got) != want {
			t.Errorf("%s is %s, %v; here it is %d", name, found[1], err, want)
		}
	}
}
