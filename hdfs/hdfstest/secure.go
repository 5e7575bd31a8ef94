package hdfstest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Realm is that of a Secure HDFS; Superuser and Proxy are principals there: the one may do everything, the other may act for alice and
// root.
const (
	Realm     = "EXAMPLE.COM"
	Superuser = "hdfs/localhost@" + Realm
	Proxy     = "headrace@" + Realm
)

// Secure is an HDFS that lets in only who proves who they are, by a Kerberos of its own (Hadoop's MiniKdc).
type Secure struct {
	*HDFS
	// Keytab is a file with the keys of all, Config the krb5.conf.
	Keytab, Config string
	dir            string
	kdc            *node
}

// GetSecure starts one for a test, whose end ends it. ready writes a file; it is called again and again until it does. The test is skipped
// where there is nothing to run it with, and among short tests.
func GetSecure(t testing.TB, ready func(context.Context, *Secure) error, properties ...string) *Secure {
	t.Helper()
	notShort(t)
	s, err := startSecure(gathered("cluster/target/hadoop"), gathered("hdfstests/target/tests"), ready, properties)
	started(t, err)
	t.Cleanup(func() { s.Stop() })
	return s
}

func startSecure(hadoop, tests string, ready func(context.Context, *Secure) error, properties []string) (*Secure, error) {
	if jars, _ := filepath.Glob(filepath.Join(tests, "hadoop-minikdc-*.jar")); len(jars) == 0 {
		return nil, fmt.Errorf("%w: there is no hadoop-minikdc in %s; make test gathers it", ErrMissing, tests)
	}
	j, err := find(hadoop)
	if err != nil {
		return nil, err
	}
	s := &Secure{}
	if s.dir, err = os.MkdirTemp("", "headrace-kdc-"); err != nil {
		return nil, err
	}
	s.Keytab, s.Config = filepath.Join(s.dir, "keytab"), filepath.Join(s.dir, "krb5.conf")
	if err := s.startKDC(j, tests); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start the KDC: %w", err)
	}
	http := "HTTP/localhost@" + Realm
	secret := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(secret, []byte("of cookies"), 0o600); err != nil {
		s.Stop()
		return nil, err
	}
	s.HDFS, err = start(hadoop, []string{"-Djava.security.krb5.conf=" + s.Config, "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED"},
		func(ctx context.Context, h *HDFS) error {
			return ready(ctx, &Secure{HDFS: h, Keytab: s.Keytab, Config: s.Config})
		},
		slices.Concat([]string{
			"hadoop.security.authentication", "kerberos", "hadoop.security.authorization", "true", "dfs.block.access.token.enable", "true",
			"dfs.namenode.kerberos.principal", Superuser, "dfs.namenode.keytab.file", s.Keytab,
			"dfs.datanode.kerberos.principal", Superuser, "dfs.datanode.keytab.file", s.Keytab, "ignore.secure.ports.for.testing", "true",
			"dfs.web.authentication.kerberos.principal", http, "dfs.web.authentication.kerberos.keytab", s.Keytab,
			"hadoop.http.authentication.type", "kerberos", "hadoop.http.authentication.signature.secret.file", secret,
			"hadoop.http.authentication.kerberos.principal", http, "hadoop.http.authentication.kerberos.keytab", s.Keytab,
			"hadoop.proxyuser.headrace.hosts", "*", "hadoop.proxyuser.headrace.users", "alice,root",
		}, properties))
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// URL returns that of the name node, by the name that its keys are for.
func (s *Secure) URL() string {
	_, port, _ := net.SplitHostPort(s.Host)
	return "http://localhost:" + port
}

func (s *Secure) startKDC(j *hadoopJars, tests string) error {
	settings := filepath.Join(s.dir, "settings")
	if err := os.WriteFile(settings, nil, 0o600); err != nil {
		return err
	}
	cmd := exec.Command(j.java, slices.Concat([]string{"-Xmx64m"}, small, j.archiveFlags(), []string{"--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
		"-cp", j.path + ":" + filepath.Join(tests, "*"),
		"org.apache.hadoop.minikdc.MiniKdc", s.dir, settings, s.Keytab, "hdfs/localhost", "HTTP/localhost", "headrace", "mallory"})...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if s.kdc, err = startNode(cmd, filepath.Join(s.dir, "kdc.log")); err != nil {
		return err
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for late := time.After(startTime); ; {
		log, _ := os.ReadFile(s.kdc.log)
		if strings.Contains(string(log), "Standalone MiniKdc Running") {
			return nil
		}
		select {
		case <-ticker.C:
			continue
		case <-s.kdc.ended:
		case <-late:
		}
		return fmt.Errorf("it is not there:\n%s", last(log))
	}
}

// Stop ends all of it and removes its files.
func (s *Secure) Stop() error {
	if s.HDFS != nil {
		s.HDFS.Stop()
	}
	if s.kdc != nil {
		s.kdc.cmd.Process.Kill()
		<-s.kdc.ended
	}
	return os.RemoveAll(s.dir)
}
