package metatest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"headrace/hdfs/hdfstest"
	"headrace/meta"
)

// remote is a real HDFS, or one of our nodes, over WebHDFS.
type remote struct {
	url  string
	code int // of the last answer
}

var methods = map[string]string{"GETFILESTATUS": "GET", "LISTSTATUS": "GET", "GETCONTENTSUMMARY": "GET", "CHECKACCESS": "GET", "GETACLSTATUS": "GET",
	"GETXATTRS": "GET", "GET_BLOCK_LOCATIONS": "GET", "GETQUOTAUSAGE": "GET", "APPEND": "POST", "TRUNCATE": "POST", "CONCAT": "POST", "DELETE": "DELETE"}

func (r *remote) do(o op) (string, error) {
	q := url.Values{"op": {o.name}, "user.name": {o.user}}
	for k, v := range o.q {
		q.Set(k, v)
	}
	if o.name == "GETXATTRS" {
		q.Set("encoding", "hex")
	}
	method := methods[o.name]
	if method == "" {
		method = "PUT"
	}
	to := r.url + (&url.URL{Path: "/webhdfs/v1" + o.path}).EscapedPath() + "?" + q.Encode()
	var body io.Reader
	if o.name == "CREATE" || o.name == "APPEND" {
		body = bytes.NewReader(make([]byte, o.size))
	}
	req, err := http.NewRequest(method, to, body)
	if err != nil {
		return "", err
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(make([]byte, o.size))), nil }
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	r.code = resp.StatusCode
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode/100 != 2 {
		return "", exception(resp.Status, b)
	}
	text, err := answer(o, b)
	if o.name == "TRUNCATE" && text == "false" {
		code := r.code
		err = r.closed(o.path)
		r.code = code
	}
	return text, err
}

// closed waits until a file is cut.
func (r *remote) closed(path string) error {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		text, err := r.do(op{user: hdfstest.User, name: "GET_BLOCK_LOCATIONS", path: path})
		if f := strings.Fields(text); err != nil || f[1] == "false" {
			return err
		}
	}
	return fmt.Errorf("%s is not cut after two minutes", path)
}

func exception(status string, b []byte) error {
	var out struct {
		RemoteException struct{ JavaClassName, Exception, Message string }
	}
	if err := json.Unmarshal(b, &out); err != nil || out.RemoteException.Exception == "" {
		return fmt.Errorf("%s: %s", status, b)
	}
	e := out.RemoteException
	line, _, _ := strings.Cut(e.Message, "\n\tat ") // some have the trace of a stack
	return &meta.Error{Class: e.JavaClassName, Message: line}
}

type fileStatus struct {
	PathSuffix, Type, Owner, Group, Permission string
	Length, ModificationTime, AccessTime       int64
	Replication                                uint16
	BlockSize                                  int64
	ChildrenNum                                uint64
	ACLBit                                     bool
}

func (f fileStatus) text() string {
	mode, _ := strconv.ParseUint(f.Permission, 8, 16)
	return statusText(f.PathSuffix, f.Type == "DIRECTORY", f.ACLBit, f.Length, uint16(mode), f.Owner, f.Group,
		f.ModificationTime, f.AccessTime, f.Replication, f.BlockSize, f.ChildrenNum)
}

type locatedBlock struct {
	StartOffset int64
	Block       struct{ NumBytes int64 }
}

// answer turns one of WebHDFS into the text that the other side has.
func answer(o op, b []byte) (string, error) {
	var out struct {
		Boolean        *bool
		FileStatus     *fileStatus
		FileStatuses   *struct{ FileStatus []fileStatus }
		ContentSummary *struct{ DirectoryCount, FileCount, Length, Quota, SpaceConsumed, SpaceQuota int64 }
		QuotaUsage     *struct{ FileAndDirectoryCount, Quota, SpaceConsumed, SpaceQuota int64 }
		AclStatus      *struct {
			Owner, Group, Permission string
			StickyBit                bool
			Entries                  []string
		}
		XAttrs        []struct{ Name, Value string }
		LocatedBlocks *struct {
			FileLength                               int64
			IsUnderConstruction, IsLastBlockComplete bool
			LocatedBlocks                            []locatedBlock
			LastLocatedBlock                         *locatedBlock
		}
	}
	if len(b) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return "", fmt.Errorf("%s: %w", b, err)
	}
	switch {
	case out.Boolean != nil:
		return strconv.FormatBool(*out.Boolean), nil
	case out.FileStatus != nil:
		return out.FileStatus.text(), nil
	case out.FileStatuses != nil:
		var t strings.Builder
		for _, f := range out.FileStatuses.FileStatus {
			t.WriteString(f.text() + "\n")
		}
		return t.String(), nil
	case out.ContentSummary != nil:
		c := out.ContentSummary
		return fmt.Sprint(c.DirectoryCount, c.FileCount, c.Length, c.Quota, c.SpaceConsumed, c.SpaceQuota), nil
	case out.QuotaUsage != nil:
		u := out.QuotaUsage
		return fmt.Sprint(u.FileAndDirectoryCount, u.Quota, u.SpaceConsumed, u.SpaceQuota), nil
	case out.AclStatus != nil:
		a := out.AclStatus
		return fmt.Sprintf("%s %s %v %s %v", a.Owner, a.Group, a.StickyBit, a.Permission, a.Entries), nil
	case o.name == "GETXATTRS":
		var lines []string
		for _, x := range out.XAttrs {
			v, err := hex.DecodeString(strings.TrimPrefix(x.Value, "0x"))
			if err != nil {
				return "", err
			}
			lines = append(lines, fmt.Sprintf("%s=%q", x.Name, v))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n"), nil
	case out.LocatedBlocks != nil:
		l := out.LocatedBlocks
		text := fmt.Sprint(l.FileLength, l.IsUnderConstruction, l.IsLastBlockComplete)
		for _, b := range l.LocatedBlocks {
			text += fmt.Sprintf(" %d+%d", b.StartOffset, b.Block.NumBytes)
		}
		if b := l.LastLocatedBlock; b != nil {
			text += fmt.Sprintf(" last %d+%d", b.StartOffset, b.Block.NumBytes)
		}
		return text, nil
	}
	return "", fmt.Errorf("%v: an answer without sense: %s", o, b)
}
