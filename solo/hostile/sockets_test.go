package hostile

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace/proc/control"
	"headrace/stream/protocol"
	"headrace/wire"
)

// sockets tries what is not the protocol: the sockets of streams, of containers and
// of the supervisors of others' tasks.
func (a *attacker) sockets() {
	for _, name := range []string{"stream.sock", "attach.sock", "headrace.sock"} {
		for _, junk := range []string{"", "\x00", strings.Repeat("\xff", 100_000), "GET / HTTP/1.1\r\n\r\n", "{\"id\":1}\n", "\x00\x00\x00\x04abcd"} {
			a.talk(filepath.Join(a.StateDir, name), []byte(junk))
		}
	}
	for _, s := range a.Streams {
		for consumer := range uint32(3) {
			for attempt := range uint32(3) {
				var frames []byte
				for _, m := range []protocol.Message{
					&protocol.Hello{Version: protocol.Version, Stream: s, Consumer: consumer, Attempt: attempt},
					&protocol.Next{}, &protocol.Consumed{Unit: 0, Bytes: 1 << 40, Whole: true}, &protocol.Finish{Code: 0},
				} {
					frame, err := protocol.Append(frames, m)
					if err != nil {
						a.fault("stream: %v", err)
						return
					}
					frames = frame
				}
				a.talk(filepath.Join(a.StateDir, "stream.sock"), frames)
			}
		}
	}
	for _, id := range append([]string{"container_1_0001_01_000001"}, a.Tasks...) {
		request := fmt.Sprintf(`{"id":%q,"argv":["/bin/sh","-c","id"],"cwd":"/","env":[]}`, id)
		a.talk(filepath.Join(a.StateDir, "attach.sock"), append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...))
	}
	for _, id := range a.Tasks {
		socket := filepath.Join(a.StateDir, "tasks", id, control.SocketName)
		for _, op := range []string{"kill", "suspend", "resume", "stats", "checkpoint", "shutdown"} {
			a.talk(socket, fmt.Appendf(nil, `{"id":1,"op":%q,"args":{}}`+"\n", op))
		}
	}
}

// talk says something on a socket and takes in what comes back within a moment.
func (a *attacker) talk(socket string, text []byte) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		a.saw([]byte(err.Error()))
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
	conn.Write(text)
	conn.(*net.UnixConn).CloseWrite()
	answer := make([]byte, 64<<10)
	for {
		n, err := conn.Read(answer)
		a.saw(answer[:n])
		if err != nil {
			return
		}
	}
}

// manager asks the manager without its token and with wrong ones: it must answer
// nobody; and the daemon, which must not know the request.
func (a *attacker) manager(m protoreflect.MethodDescriptor, right []byte) {
	if ans := a.call(m, right); ans.code == "ok" {
		a.fault("%s: the daemon of a machine answers for a manager", m.FullName())
	}
	client := &http.Client{}
	for _, token := range []string{"", "Bearer ", "Bearer x", "Bearer " + strings.Repeat("x", 10_000), "Basic eDp4"} {
		header := http.Header{}
		if token != "" {
			header.Set("Authorization", token)
		}
		url := fmt.Sprintf("%s/%s/%s", a.Manager, m.Parent().FullName(), m.Name())
		if ans := a.post(client, url, m, right, header); ans.code == "ok" || ans.code == "none" && !m.IsStreamingServer() {
			a.fault("%s: the manager answers without the token: %s %s", m.FullName(), ans.code, ans.text)
		}
	}
}

// limits asks for more than there is or than may be, last of all: root and others
// must be served all the same.
func (a *attacker) limits() {
	urgent := a.command("exec sleep 100000")
	urgent.Held, urgent.Priority = false, 9
	if ans := a.callWith("headrace.v1.TaskService.Run", urgent); ans.code != "permission_denied" {
		a.fault("the production band is open to everybody: %s %s", ans.code, ans.text)
	}
	urgent.Priority, urgent.Cpus = 8, 1 // the greatest that is
	for range 100 {
		if ans := a.callWith("headrace.v1.TaskService.Run", urgent); ans.code != "ok" {
			a.fault("the attacker's own urgent task: %s %s", ans.code, ans.text)
			break
		}
	}
	large := a.command("true")
	large.Env = append(large.Env, "X="+strings.Repeat("x", 120_000))
	for i := 0; ; i++ {
		ans := a.callWith("headrace.v1.TaskService.Run", large)
		if ans.code == "resource_exhausted" && strings.Contains(ans.text, "limit spec-bytes") {
			break
		}
		if ans.code != "ok" || i > 2000 {
			a.fault("the bytes of commands are not limited: after %d, %s %s", i, ans.code, ans.text)
			break
		}
	}
	for range 300 { // idle connections
		conn, err := net.Dial("unix", a.Socket)
		if err != nil {
			break
		}
		defer conn.Close()
	}
	var res wire.ListResponse
	body, _ := proto.Marshal(&wire.ListRequest{})
	if ans := a.call(method("headrace.v1.TaskService.List"), body); ans.code == "ok" {
		proto.Unmarshal(ans.body, &res)
	}
	fmt.Fprint(a.out, os.Getuid(), len(res.Tasks))
}
