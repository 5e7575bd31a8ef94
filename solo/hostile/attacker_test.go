package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace/wire"
)

// attacker is a program of an ordinary user. Every byte that it is answered goes to
// its standard output, for root to look for secrets in; what is wrong on its own
// goes to standard error.
type attacker struct {
	briefing
	unix *http.Client
	task string // one of its own

	mu       sync.Mutex
	requests int
	out      io.Writer
	// codes counts the answers to each request by their code.
	codes map[string]map[string]int
}

// slow is how long a request may take that is answered once.
const slow = time.Minute

func attackMain(in io.Reader, out io.Writer) int {
	b, err := readBriefing(in)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", b.Socket)
	}
	a := &attacker{
		briefing: b, out: out, codes: map[string]map[string]int{},
		unix: &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 12}},
	}
	for _, part := range []struct {
		what string
		try  func()
	}{
		{"its own things", a.prepare}, {"every request", a.everyRequest}, {"every path", a.everyPath}, {"paths that change", a.swaps},
		{"checkpoints", a.checkpoints}, {"sockets", a.sockets}, {"limits", a.limits},
	} {
		began, before := time.Now(), a.requests
		part.try()
		fmt.Fprintf(os.Stderr, "DONE %s: %d requests in %v\n", part.what, a.requests-before, time.Since(began).Round(time.Millisecond))
	}
	for name, codes := range a.codes {
		a.saw([]byte(fmt.Sprintln(name, codes)))
	}
	return 0
}

// fault reports something that is wrong whatever the answers hold.
func (a *attacker) fault(format string, args ...any) {
	fmt.Fprintln(os.Stderr, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " | "))
}

func (a *attacker) saw(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.out.Write(b)
	a.out.Write([]byte("\n"))
}

func (a *attacker) count(m protoreflect.MethodDescriptor, code string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	name := string(m.FullName())
	if a.codes[name] == nil {
		a.codes[name] = map[string]int{}
	}
	a.codes[name][code]++
}

// answer is what came of a request.
type answer struct {
	code string // ok, or the name of an error
	text string // of an error
	body []byte
}

// call makes a request with a body that need not be a right one. A stream is read
// for a moment.
func (a *attacker) call(m protoreflect.MethodDescriptor, body []byte) answer {
	url := fmt.Sprintf("http://headrace/%s/%s", m.Parent().FullName(), m.Name())
	return a.post(a.unix, url, m, body, nil)
}

func (a *attacker) post(client *http.Client, url string, m protoreflect.MethodDescriptor, body []byte, header http.Header) answer {
	limit, kind := slow, "application/proto"
	if m.IsStreamingServer() {
		limit, kind = 150*time.Millisecond, "application/connect+proto"
		body = envelope(body)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		a.fault("%s: %v", m.FullName(), err)
		return answer{code: "none"}
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Connect-Protocol-Version", "1")
	res, err := client.Do(req)
	if err != nil {
		if !m.IsStreamingServer() && ctx.Err() != nil {
			a.fault("%s: no answer within %v to %.200q", m.FullName(), slow, body)
		}
		a.count(m, "none")
		return answer{code: "none", text: err.Error()}
	}
	defer res.Body.Close()
	got, _ := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	a.saw(got)
	ans := answer{code: "ok", body: got}
	text := got
	if m.IsStreamingServer() {
		ans.body, text = messages(got)
	}
	if res.StatusCode != http.StatusOK || m.IsStreamingServer() {
		var e struct {
			Code, Message string
			Error         *struct{ Code, Message string }
		}
		json.Unmarshal(text, &e)
		if e.Error != nil {
			e.Code, e.Message = e.Error.Code, e.Error.Message
		}
		if res.StatusCode != http.StatusOK && e.Code == "" {
			e.Code = fmt.Sprint(res.StatusCode)
		}
		if e.Code != "" {
			ans.code, ans.text = e.Code, e.Message
		}
	}
	if ans.code == "internal" || ans.code == "unknown" {
		a.fault("%s: the daemon's own fault: %s (%.300q)", m.FullName(), ans.text, body)
	}
	a.count(m, ans.code)
	return ans
}

// envelope frames a message of a stream.
func envelope(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// messages returns the messages of a stream, together, and its end.
func messages(b []byte) (all, end []byte) {
	for len(b) >= 5 {
		n := int(binary.BigEndian.Uint32(b[1:5]))
		if n > len(b)-5 {
			return append(all, b[5:]...), nil
		}
		if b[0]&2 != 0 {
			end = b[5 : 5+n]
		} else {
			all = append(all, b[5:5+n]...)
		}
		b = b[5+n:]
	}
	return all, end
}

// must makes one of the attacker's own requests that has to succeed.
func (a *attacker) must(name protoreflect.FullName, q, res proto.Message) {
	body, err := proto.Marshal(q)
	if err == nil {
		ans := a.call(method(name), body)
		if ans.code != "ok" {
			err = fmt.Errorf("%s: %s", ans.code, ans.text)
		} else {
			err = proto.Unmarshal(ans.body, res)
		}
	}
	if err != nil {
		a.fault("%s: %v", name, err)
	}
}

func method(name protoreflect.FullName) protoreflect.MethodDescriptor {
	services := wire.File_headrace_proto.Services()
	for i := range services.Len() {
		if m := services.Get(i).Methods().ByName(name.Name()); m != nil && m.FullName() == name {
			return m
		}
	}
	panic("no request " + name)
}

// sideBySide does n things, several at a time. It says how far it is: on an emulated machine it takes longer than the test waits for a word.
func (a *attacker) sideBySide(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(12)
	for i := range n {
		if i > 0 && i%100 == 0 {
			fmt.Fprintf(os.Stderr, "DONE %d of %d\n", i, n)
		}
		group.Go(func() error { do(i); return nil })
	}
	group.Wait()
}
