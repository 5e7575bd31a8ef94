package hdfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"headrace"
	"headrace/internal/testkit"
)

// blockSize is that of the files of tests.
const blockSize = 64 << 10

// TestBlocks follows the blocks of a file through all that happens to it.
func TestBlocks(t *testing.T) {
	c, dir := realClient(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	blocks := func(path string) []headrace.Block {
		t.Helper()
		list, err := c.Blocks(ctx, path, 0)
		must(err)
		for _, b := range list {
			if !strings.HasPrefix(b.ID.Pool, "BP-") || b.ID.Number <= 0 || b.Generation <= 0 || len(b.Hosts) != 1 || b.Hosts[0] != "127.0.0.1" {
				t.Errorf("%s: %+v", path, b)
			}
		}
		return list
	}
	lengths := func(list []headrace.Block) (n []int64) {
		at := int64(0)
		for _, b := range list {
			if b.Offset != at {
				t.Errorf("block at %d, want %d", b.Offset, at)
			}
			n, at = append(n, b.Bytes), at+b.Bytes
		}
		return n
	}
	want := func(list []headrace.Block, n ...int64) {
		t.Helper()
		if got := lengths(list); !reflect.DeepEqual(got, n) {
			t.Errorf("blocks of %d bytes, want %d", got, n)
		}
	}
	path := dir + "/a"
	must(create(ctx, c, path, ""))
	want(blocks(path))
	must(c.RemoveAll(ctx, path))
	must(create(ctx, c, path, strings.Repeat("x", 2*blockSize+100)))
	first := blocks(path)
	want(first, blockSize, blockSize, 100)

	must(appendTo(ctx, c, path, strings.Repeat("y", blockSize)))
	appended := blocks(path)
	want(appended, blockSize, blockSize, blockSize, 100)
	if !reflect.DeepEqual(appended[:2], first[:2]) || appended[2].ID != first[2].ID || appended[2].Generation <= first[2].Generation {
		t.Errorf("appending made %+v of %+v", appended, first)
	}

	_, err := c.call(ctx, http.MethodPut, dir, query("ALLOWSNAPSHOT"), nil)
	must(err)
	_, err = c.call(ctx, http.MethodPut, dir, query("CREATESNAPSHOT", "snapshotname", "s"), nil)
	must(err)
	must(c.Rename(ctx, path, dir+"/b"))
	if moved := blocks(dir + "/b"); !reflect.DeepEqual(moved, appended) {
		t.Errorf("renaming made %+v of %+v", moved, appended)
	}
	_, err = c.call(ctx, http.MethodPost, dir+"/b", query("TRUNCATE", "newlength", strconv.Itoa(blockSize+10)), nil)
	must(err)
	var cut []headrace.Block
	testkit.Await(t, "the last block to be recovered", func() bool { cut = blocks(dir + "/b"); return len(cut) == 2 })
	want(cut, blockSize, 10)
	if cut[0].ID != first[0].ID || cut[1].ID == first[1].ID && cut[1].Generation == first[1].Generation {
		t.Errorf("cutting made %+v of %+v", cut, appended)
	}
	if kept := blocks(dir + "/.snapshot/s/a"); !reflect.DeepEqual(kept, appended) {
		t.Errorf("the snapshot has %+v, not %+v", kept, appended)
	}
	must(c.RemoveAll(ctx, dir+"/b"))
	_, err = c.Blocks(ctx, dir+"/b", 0)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is gone: %v", err)
	}
	if _, err := c.Blocks(ctx, dir, 0); err == nil {
		t.Error("a directory has blocks")
	}
}

// TestBlocksOfWriter: blocks that are finished are there while a file is being written,
// the last one is not.
func TestBlocksOfWriter(t *testing.T) {
	c, dir := realClient(t)
	ctx := t.Context()
	written, finish := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- c.Create(ctx, dir+"/a", 0o644, func(w io.Writer) error {
			// The third block is sent when it is full, and with it that the second is.
			_, err := w.Write(make([]byte, 3*blockSize+blockSize/2))
			close(written)
			<-finish
			return err
		})
	}()
	<-written
	var list []headrace.Block
	testkit.Await(t, "two blocks to be finished", func() bool {
		var err error
		if list, err = c.Blocks(ctx, dir+"/a", 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return len(list) >= 2
	})
	if len(list) != 2 || list[1].Offset != blockSize || list[1].Bytes != blockSize {
		t.Errorf("%+v", list)
	}
	close(finish)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	all, err := c.Blocks(ctx, dir+"/a", 0)
	if err != nil || len(all) != 4 || !reflect.DeepEqual(all[:2], list) || all[3].Bytes != blockSize/2 {
		t.Errorf("then %+v, %v", all, err)
	}
}

// appendTo appends to a file.
func appendTo(ctx context.Context, c *Client, path, text string) error {
	to, err := c.redirect(ctx, http.MethodPost, path, query("APPEND", "noredirect", "true"))
	if err != nil {
		return err
	}
	return sendTo(ctx, c, http.MethodPost, to, text)
}

func sendTo(ctx context.Context, c *Client, method, to, text string) error {
	req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	return c.send(req)
}

// TestWhoMaySee: blocks and files are told with the rights of a user, a proxy user's too.
func TestWhoMaySee(t *testing.T) {
	c, dir := realClient(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Chmod(ctx, dir, 0o755))
	must(c.MkdirAll(ctx, dir+"/closed", 0o700))
	must(create(ctx, c, dir+"/closed/x", "hello"))
	must(create(ctx, c, dir+"/secret", "hello"))
	must(c.Chmod(ctx, dir+"/secret", 0o600))
	must(create(ctx, c, dir+"/public", "hello"))
	must(c.Chmod(ctx, dir+"/public", 0o644))
	as := func(c *Client, user string) *Client {
		t.Helper()
		as, err := c.As(user)
		must(err)
		return as
	}
	for who, stranger := range map[string]*Client{
		"a stranger":              newClient(t, Options{NameNodes: c.o.NameNodes, User: "alice"}),
		"the superuser for alice": as(c, "alice"),
	} {
		if list, err := stranger.Blocks(ctx, dir+"/public", 0); err != nil || len(list) != 1 {
			t.Errorf("%s: a file for all: %v, %v", who, list, err)
		}
		for _, path := range []string{"/secret", "/closed/x"} {
			if list, err := stranger.Blocks(ctx, dir+path, 0); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrProxy) {
				t.Errorf("%s: %s: %v, %v", who, path, list, err)
			}
		}
		files, problems := search(t, stranger, dir)
		if want := []string{dir + "/public", dir + "/secret"}; !reflect.DeepEqual(files, want) {
			t.Errorf("%s finds %q, want %q", who, files, want)
		}
		if len(problems) != 1 || !errors.Is(problems[dir+"/closed"], fs.ErrPermission) {
			t.Errorf("%s: problems %v", who, problems)
		}
	}
	for who, c := range map[string]*Client{
		"for a user who is not allowed":   as(c, "bob"),
		"of a user who is allowed nobody": as(newClient(t, Options{NameNodes: c.o.NameNodes, User: "mallory"}), "alice"),
	} {
		_, err := c.Blocks(ctx, dir+"/public", 0)
		if !errors.Is(err, ErrProxy) || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "hadoop.proxyuser."+c.o.User+".users") {
			t.Errorf("%s: %v", who, err)
		}
	}
	if _, err := c.As(""); err == nil {
		t.Error("for nobody is taken")
	}
}

// TestErasureCoded: what is in stripes is said to be, and its blocks are not asked for.
func TestErasureCoded(t *testing.T) {
	c, dir := realClient(t)
	ctx := t.Context()
	if _, err := c.call(ctx, http.MethodPut, dir, query("SETECPOLICY", "ecpolicy", "RS-6-3-1024k"), nil); err != nil {
		t.Fatal(err)
	}
	q := query("CREATE", "blocksize", strconv.Itoa(2<<20), "noredirect", "true")
	to, err := c.redirect(ctx, http.MethodPut, dir+"/a", q)
	if err != nil {
		t.Fatal(err)
	}
	if err := sendTo(ctx, c, http.MethodPut, to, ""); err != nil {
		t.Fatal(err)
	}
	st, err := c.Stat(ctx, dir+"/a")
	if err != nil || !st.ErasureCoded {
		t.Errorf("%+v, %v", st, err)
	}
	if list, err := c.Blocks(ctx, dir+"/a", 0); err != nil || len(list) != 0 {
		t.Errorf("an empty one has no blocks: %+v, %v", list, err)
	}
}

// fakeFile answers GET_BLOCK_LOCATIONS and GETFILESTATUS.
type fakeFile struct {
	bytes   []int64 // of blocks
	change  func(answer int, l *located)
	ec      bool
	asked   int
	longest int // blocks of an answer, more is too long; 0: any
}

func (f *fakeFile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("op") == "GETFILESTATUS" {
		fmt.Fprintf(w, `{"FileStatus":{"permission":"644","type":"FILE","ecBit":%v}}`, f.ec)
		return
	}
	from, _ := strconv.ParseInt(q.Get("offset"), 10, 64)
	n, _ := strconv.ParseInt(q.Get("length"), 10, 64)
	l := located{IsLastBlockComplete: true}
	for i, bytes := range f.bytes {
		var b locatedBlock
		b.Block.BlockPoolID, b.Block.BlockID, b.Block.GenerationStamp, b.Block.NumBytes = "BP-1", int64(i)+1, 1001, bytes
		b.StartOffset = l.FileLength
		b.Locations = append(b.Locations, struct {
			HostName string `json:"hostName"`
			IPAddr   string `json:"ipAddr"`
		}{"host", "10.0.0.1"})
		l.FileLength += bytes
		if b.StartOffset < from+n && l.FileLength > from {
			l.LocatedBlocks = append(l.LocatedBlocks, b)
		}
		l.LastLocatedBlock = &b
	}
	if f.change != nil {
		f.change(f.asked, &l)
	}
	f.asked++
	out, _ := json.Marshal(struct{ LocatedBlocks located }{l})
	if f.longest > 0 && len(l.LocatedBlocks) > f.longest {
		out = append(out, strings.Repeat(" ", 100<<10)...)
	}
	w.Write(out)
}

func (f *fakeFile) blocks(t *testing.T) ([]headrace.Block, error) {
	server := httptest.NewServer(f)
	defer server.Close()
	c := newClient(t, Options{NameNodes: []string{server.URL, server.URL}, User: "u"})
	c.most = 100 << 10
	return c.Blocks(t.Context(), "/a", 0)
}

// TestBlocksOfLongFiles: what does not fit into one answer comes in several, and what
// changes between them is seen.
func TestBlocksOfLongFiles(t *testing.T) {
	const gb = 1 << 30
	long := []int64{10 * gb, 10 * gb, 3 * gb, 40 * gb, 1, 1, 16 * gb, 5}
	for what, f := range map[string]*fakeFile{
		"as they come":       {bytes: long},
		"one":                {bytes: long[:1]},
		"none":               {},
		"long answers":       {bytes: []int64{gb, gb, gb, gb, gb, gb, gb}, longest: 2},
		"long answers later": {bytes: []int64{15 * gb, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, longest: 4},
	} {
		list, err := f.blocks(t)
		if err != nil || len(list) != len(f.bytes) {
			t.Errorf("%s: %+v, %v", what, list, err)
			continue
		}
		at := int64(0)
		for i, b := range list {
			if want := (headrace.Block{ID: headrace.BlockID{Pool: "BP-1", Number: int64(i) + 1}, Generation: 1001, Offset: at, Bytes: f.bytes[i], Hosts: []string{"host"}}); !reflect.DeepEqual(b, want) {
				t.Errorf("%s: %+v, want %+v", what, b, want)
			}
			at += b.Bytes
		}
	}
	for what, c := range map[string]struct {
		change func(answer int, l *located)
		want   error
		words  string
	}{
		"replaced": {func(answer int, l *located) {
			for i := range l.LocatedBlocks {
				l.LocatedBlocks[i].Block.BlockID += int64(100 * answer)
			}
		}, ErrChanged, ""},
		"cut": {func(answer int, l *located) {
			if answer > 0 {
				l.LocatedBlocks, l.FileLength = nil, 5
			}
		}, ErrChanged, ""},
		"a gap":           {func(_ int, l *located) { l.LocatedBlocks = l.LocatedBlocks[1:] }, nil, "one at 0 is wanted"},
		"blocks of none":  {func(_ int, l *located) { l.LocatedBlocks[0].Block.NumBytes = 0 }, nil, "with 0 bytes"},
		"no end":          {func(_ int, l *located) { l.FileLength = 1 << 60 }, nil, "names none"},
		"a negative ID":   {func(_ int, l *located) { l.LocatedBlocks[0].Block.BlockID *= -1 }, nil, "negative ID"},
		"without a pool":  {func(_ int, l *located) { l.LocatedBlocks[0].Block.BlockPoolID = "" }, nil, "wanted"},
		"beyond all ends": {func(_ int, l *located) { l.LocatedBlocks[1].Block.NumBytes = 1<<63 - 1 }, nil, "wanted"},
	} {
		f := &fakeFile{bytes: long, change: c.change}
		list, err := f.blocks(t)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %+v, %v", what, list, err)
		}
		if f.asked > 100 {
			t.Errorf("%s: %d questions", what, f.asked)
		}
	}
	f := &fakeFile{bytes: long, ec: true, change: func(_ int, l *located) { l.LocatedBlocks[0].Block.BlockID *= -1 }}
	if _, err := f.blocks(t); !errors.Is(err, ErrErasureCoded) {
		t.Errorf("an erasure-coded file: %v", err)
	}
	f = &fakeFile{bytes: long[:1], change: func(_ int, l *located) { l.LocatedBlocks[0].Block.BlockPoolID = strings.Repeat("x", 100<<10) }}
	if _, err := f.blocks(t); !errors.Is(err, errAnswer) {
		t.Errorf("an answer that stays too long: %v", err)
	}
}

func TestHosts(t *testing.T) {
	for answer, want := range map[string][]string{
		`{"locations":[{"hostName":"a","ipAddr":"10.0.0.1"},{"ipAddr":"10.0.0.2"},{}]}`:                   {"a", "10.0.0.2"},
		`{"locations":[{"hostName":"a"},{"hostName":"b"}],"storageTypes":["PROVIDED","DISK"]}`:            {"b"},
		`{"locations":[{"hostName":"a"},{"hostName":"b"}],"storageTypes":["SSD"],"cachedLocations":[{}]}`: {"a", "b"},
		`{"locations":[{"hostName":"a"}],"isCorrupt":true}`:                                               nil,
		`{"locations":null}`: nil,
	} {
		var b locatedBlock
		if err := json.Unmarshal([]byte(answer), &b); err != nil {
			t.Fatal(err)
		}
		if got := b.hosts(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", answer, got, want)
		}
	}
}

// FuzzBlocks: whatever a name node answers, blocks follow each other without a gap.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte(`{"fileLength":5,"isLastBlockComplete":true,"lastLocatedBlock":null,"locatedBlocks":[{"block":{"blockPoolId":"BP-1","blockId":1,"generationStamp":1001,"numBytes":5},"startOffset":0,"isCorrupt":false,"storageTypes":["DISK"],"locations":[{"hostName":"a","ipAddr":"b"}]}]}`), int64(0))
	f.Fuzz(func(t *testing.T, answer []byte, at int64) {
		var l located
		if json.Unmarshal(answer, &l) != nil || at < 0 {
			return
		}
		list, err := l.add(nil, at)
		if err != nil {
			return
		}
		for _, b := range list {
			if b.Offset != at || b.Bytes <= 0 || b.ID.Number < 0 || b.ID.Pool == "" {
				t.Fatalf("%+v at %d", b, at)
			}
			at += b.Bytes
		}
	})
}

// search returns what Find finds and what it could not look at.
func search(t *testing.T, c *Client, paths ...string) (files []string, problems map[string]error) {
	t.Helper()
	problems = map[string]error{}
	err := c.Find(t.Context(), paths, Visitor{
		File:    func(path string, _ FileInfo) error { files = append(files, path); return nil },
		Problem: func(p *Problem) error { problems[p.Path] = p.Err; return nil },
	})
	if err != nil {
		t.Error(err)
	}
	return files, problems
}
