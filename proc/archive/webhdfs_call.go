package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// maxAnswer bounds a name node's answer: a list of some ten thousand entries.
const maxAnswer = 64 << 20

// call makes a request that moves no data, to the active name node, and reads its
// answer into out, unless that is nil.
func (h *hdfsPlace) call(ctx context.Context, method, name string, q url.Values, out any) (http.Header, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if h.Delegation != "" {
		q.Set("delegation", h.Delegation)
	} else {
		q.Set("user.name", h.User)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	var errs []error
	for _, node := range h.NameNodes {
		head, err := h.ask(ctx, method, strings.TrimSuffix(node, "/")+"/webhdfs/v1"+path.Join(h.Dir, name)+"?"+q.Encode(), out)
		var remote *RemoteError
		if err == nil || errors.As(err, &remote) && !remote.elsewhere() || ctx.Err() != nil {
			return head, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (h *hdfsPlace) ask(ctx context.Context, method, url string, out any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, h.redact(err)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, h.redact(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return nil, remoteError(resp)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, h.redact(err)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			return nil, fmt.Errorf("answer of %s: %w", req.URL.Host, err)
		}
	}
	return resp.Header, nil
}

// send makes a request that sends data.
func (h *hdfsPlace) send(req *http.Request) error {
	resp, err := h.client.Do(req)
	if err != nil {
		return h.redact(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return remoteError(resp)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return err
}

// redact keeps addresses, which hold the delegation token, out of error messages.
func (h *hdfsPlace) redact(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		host := "HDFS"
		if at, perr := url.Parse(u.URL); perr == nil {
			host = at.Host
		}
		return fmt.Errorf("%s %s: %w", u.Op, host, u.Err)
	}
	return err
}

// RemoteError is what HDFS has answered.
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
