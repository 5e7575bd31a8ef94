package gateway

import (
	"context"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/internal/linux"
)

// TestWhoCalls: the kernel knows whose connection it is; nobody but root is somebody else.
func TestWhoCalls(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	s := serve(t, t.TempDir())
	root := "/"
	asNobody := func(name string) error {
		return linux.AsUser(linux.Credentials{UID: uint32(uid), GID: uint32(uid)}, func() error {
			c, err := ipc.Dial(context.Background(), s.rpc, ipc.Options{Protocol: clientProtocol, User: ipc.User{Name: name}})
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Call(context.Background(), "getFileInfo", &pb.GetFileInfoRequestProto{Src: &root}, &pb.GetFileInfoResponseProto{})
		})
	}
	for name, want := range map[string]string{"nobody": "", "root": "user nobody is not root", "hdfs": "user nobody is not hdfs"} {
		err := asNobody(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("nobody as %s: %v", name, err)
		}
	}
	s.g.callers.Trust = true
	if err := asNobody("root"); err != nil {
		t.Errorf("believed: %v", err)
	}
}
