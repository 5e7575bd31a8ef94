package hdfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
)

// ErrRefused: HDFS has answered that it did not do what it was asked to, without a reason.
var ErrRefused = errors.New("HDFS refuses")

// A RemoteError is an exception of HDFS.
type RemoteError struct {
	Status    int
	Exception string
	Message   string // its first line
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("HDFS: %s: %s (HTTP status %d)", e.Exception, e.Message, e.Status)
}

func (e *RemoteError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Exception == "FileNotFoundException"
	case fs.ErrExist:
		return e.Exception == "FileAlreadyExistsException"
	case fs.ErrPermission:
		return e.Exception == "AccessControlException"
	}
	return false
}

// elsewhere: another name node may be the active one.
func (e *RemoteError) elsewhere() bool {
	return e.Exception == "StandbyException" || e.Exception == "RetriableException" || e.Exception == "SafeModeException"
}

func remoteError(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var out struct {
		RemoteException struct{ Exception, Message string }
	}
	if json.Unmarshal(b, &out) != nil || out.RemoteException.Exception == "" {
		out.RemoteException.Exception, out.RemoteException.Message = resp.Status, string(b[:min(len(b), 200)])
	}
	line, _, _ := strings.Cut(out.RemoteException.Message, "\n")
	return &RemoteError{resp.StatusCode, out.RemoteException.Exception, line}
}
