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

var (
	// ErrProxy: the name node does not let this client act for a user (Client.As).
	ErrProxy = errors.New("the name node does not allow that")
	// ErrErasureCoded: a file has no blocks that are parts of it.
	ErrErasureCoded = errors.New("it is erasure-coded: no data node has a part of it in one piece")
	// ErrChanged: a file was replaced or cut while it was asked about; ask again.
	ErrChanged = errors.New("it changed meanwhile")
	// ErrManyBlocks: a file has more blocks than were asked for.
	ErrManyBlocks = errors.New("it has too many blocks")
)

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
		return e.Exception == "AccessControlException" || e.Exception == "AuthorizationException"
	}
	return false
}

// elsewhere: another name node may be the active one.
func (e *RemoteError) elsewhere() bool {
	return e.Exception == "StandbyException" || e.Exception == "RetriableException" || e.Exception == "SafeModeException"
}

// stale: a data node has asked over a connection to a name node that has been started anew
// since. It makes a new one when it is asked again.
func (e *RemoteError) stale() bool {
	return e.Exception == "EOFException" || e.Exception == "ConnectException"
}

// advise adds to an error what can be done about it.
func (c *Client) advise(err error) error {
	var remote *RemoteError
	switch {
	case !errors.As(err, &remote):
	case remote.Status == http.StatusUnauthorized && c.o.Kerberos == nil:
		return fmt.Errorf("the name node lets in only who can prove who they are: give a principal of Kerberos and its keytab: %w", err)
	case c.as != "" && remote.Exception == "AuthorizationException":
		return fmt.Errorf("act for %s: %w: set hadoop.proxyuser.%s.hosts and hadoop.proxyuser.%[3]s.users (or .groups) in core-site.xml of all name nodes, then hdfs dfsadmin -refreshSuperUserGroupsConfiguration: %w",
			c.as, ErrProxy, c.name(), err)
	}
	return err
}

// name returns who this is to HDFS, as it takes principals to be called if it has no rules of its own for that.
func (c *Client) name() string {
	if c.o.Kerberos != nil {
		name, _, _ := strings.Cut(c.o.Kerberos.Principal, "@")
		name, _, _ = strings.Cut(name, "/")
		return name
	}
	return c.o.User
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
