package clienttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"headrace/dfs/dfstest"
	"headrace/dfs/peer"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/internal/freeport"
	"headrace/internal/testkit"
)

const idleEach = 2000 // connections to each port, from four addresses

// TestIdleAndGarbage: on every port of a node there are 2,000 connections that say nothing, and some that say what makes no sense or announce
// enormous frames. A client is answered almost as soon as without them, the node stays small, and whoever says nothing is cut off.
func TestIdleAndGarbage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it waits until connections are closed")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 4*idleEach+1000 {
		t.Skipf("%d descriptors are not enough (%v)", limit.Cur, err)
	}
	dir := t.TempDir()
	l, err := freeport.Listen("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	peerPort := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dl, err := freeport.Listen("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dataPort := dl.Addr().(*net.TCPAddr).Port
	dl.Close()
	token := filepath.Join(dir, "token")
	hdfs, web := dfstest.StartIn(t, filepath.Join(dir, "fs"), "--token-file", token, "--peer-port", strconv.Itoa(peerPort), "--data-port", strconv.Itoa(dataPort))
	u, _ := url.Parse(web)
	ports := map[string]string{"RPC": strings.TrimPrefix(hdfs, "hdfs://"), "data": fmt.Sprintf("127.0.0.1:%d", dataPort), "web": u.Host, "peers": fmt.Sprintf("127.0.0.1:%d", peerPort)}
	content := bytes.Repeat([]byte("water "), 100_000)
	put := exec.CommandContext(t.Context(), testkit.Headrace(t), "dfs", "put", "-", "/f", "--fs", hdfs)
	put.Stdin = bytes.NewReader(content)
	if out, err := put.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	secret := secretOf(t, token)
	us := peer.New(secret, peer.Limits{}, nil)
	defer us.Close()
	answered := func() (time.Duration, error) {
		began := time.Now()
		c, err := ipc.Dial(t.Context(), ports["RPC"], ipc.Options{Protocol: "org.apache.hadoop.hdfs.protocol.ClientProtocol", User: ipc.User{Name: "root"}})
		if err != nil {
			return 0, err
		}
		defer c.Close()
		path := "/f"
		if err := c.Call(t.Context(), "getFileInfo", &pb.GetFileInfoRequestProto{Src: &path}, &pb.GetFileInfoResponseProto{}); err != nil {
			return 0, err
		}
		a, err := http.Get(web + "/webhdfs/v1/f?op=OPEN&user.name=root")
		if err != nil {
			return 0, err
		}
		got, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || !bytes.Equal(got, content) {
			return 0, fmt.Errorf("%d: %d bytes, %w", a.StatusCode, len(got), err)
		}
		var l pb.GetBlockLocationsResponseProto
		if err := c.Call(t.Context(), "getBlockLocations", &pb.GetBlockLocationsRequestProto{Src: &path, Offset: proto.Uint64(0), Length: proto.Uint64(1 << 40)}, &l); err != nil {
			return 0, err
		}
		nc, err := net.Dial("tcp", ports["data"])
		if err != nil {
			return 0, err
		}
		defer nc.Close()
		b := l.Locations.Blocks[0]
		block := xfer.Block{Pool: b.B.GetPoolId(), ID: b.B.GetBlockId(), Stamp: b.B.GetGenerationStamp(), Length: int64(b.B.GetNumBytes())}
		r, err := xfer.Read(nc, xfer.Header(block, "test", b.BlockToken), 0, block.Length)
		if err != nil {
			return 0, err
		}
		if got, err = io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
			return 0, fmt.Errorf("data transfer: %d bytes, %w", len(got), err)
		}
		if a, err = us.Client().Get("https://" + ports["peers"] + "/"); err != nil {
			return 0, err
		}
		a.Body.Close()
		return time.Since(began), nil
	}
	// asks waits for an answer that is as a test says: shaking hands may take longer than nodes wait for it where the machine is busy.
	asks := func(what string, is func(took time.Duration) bool) (took time.Duration) {
		t.Helper()
		testkit.Await(t, what, func() bool {
			var err error
			took, err = answered()
			if errors.Is(err, peer.ErrUnheard) && strings.Contains(err.Error(), "has not answered within") {
				return false
			} else if err != nil {
				t.Fatal(err)
			}
			return is(took)
		}, &took)
		return took
	}
	whatever := func(time.Duration) bool { return true }
	usual := asks("an answer", whatever)
	pid := ownerOf(t, filepath.Join(dir, "fs"))
	before := resident(t, pid)
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	var closed atomic.Int64
	var reading sync.WaitGroup
	defer reading.Wait()
	for name, address := range ports {
		for i := range idleEach {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%4))}, Timeout: time.Minute}
			c, err := d.DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatalf("%s, connection %d: %v", name, i, err)
			}
			open = append(open, c)
			reading.Go(func() {
				io.Copy(io.Discard, c)
				closed.Add(1)
			})
		}
	}
	t.Cleanup(func() { reading.Wait() })
	random := make([]byte, 64<<10)
	rand.NewChaCha8([32]byte{1}).Read(random)
	huge := []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	for name, says := range map[string][][]byte{
		"RPC":   {random, append([]byte("hrpc\x09\x00\x00"), huge...), append([]byte("hrpc\x09\x00\xdf"), huge...), []byte("GET / HTTP/1.1\r\n\r\n")},
		"data":  {random, append([]byte{0, 28, 81}, huge...), append([]byte{0, 28, 80}, huge...), append([]byte{0, 28, 128}, huge...)},
		"web":   {random, append([]byte("GET / HTTP/1.1\r\nX: "), bytes.Repeat([]byte("x"), 1<<20)...), []byte("PUT /webhdfs/v1/g?op=CREATE HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n")},
		"peers": {random, append([]byte{22, 3, 1, 0xff, 0xff}, random...), []byte("GET / HTTP/1.1\r\n\r\n")},
	} {
		for _, text := range says {
			for range 20 {
				c, err := net.DialTimeout("tcp", ports[name], time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, c)
				c.SetWriteDeadline(time.Now().Add(time.Minute))
				c.Write(text) // it may be cut off in between
			}
		}
	}
	took := asks("a client to be answered almost as soon as without them", func(took time.Duration) bool { return took < max(time.Second, 20*usual) })
	if grown := resident(t, pid) - before; grown > 400<<20 {
		t.Errorf("the node has grown by %d MB", grown>>20)
	} else {
		t.Logf("answered in %v beside %d connections; the node has grown by %d MB, from %d", took, 4*idleEach-closed.Load(), grown>>20, before>>20)
	}
	testkit.Await(t, "connections that say nothing to be closed", func() bool { return closed.Load() == 4*idleEach }, &closed)
	asks("an answer in the end", whatever)
}

// secretOf reads a token file.
func secretOf(t *testing.T, path string) *peer.Secret {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := peer.NewSecret(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ownerOf finds the process that has a directory locked.
func ownerOf(t *testing.T, dir string) int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && to == filepath.Join(dir, "LOCK") {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			return pid
		}
	}
	t.Fatal("no process has the directory")
	return 0
}

// resident is the memory of a process, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
