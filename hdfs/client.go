package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Options say which HDFS to use and as whom.
type Options struct {
	// NameNodes are the HTTP addresses of the name nodes, such as
	// http://nn1:9870; with several the active one is looked for.
	NameNodes []string
	// User is who to be, for a cluster without security, Kerberos for one with. One of
	// them must be given.
	User     string
	Kerberos *Kerberos
	// Client makes the requests; nil: one that uses no proxy.
	Client *http.Client
}

// A Client reads and writes files of an HDFS. Paths are absolute. Its methods may be
// called by several goroutines at once. It holds nothing that must be closed; with Kerberos
// it is logged in until the process ends.
type Client struct {
	o    Options
	as   string // whom User acts for; empty: for itself
	http *http.Client
	most int64 // bytes of a name node's answer
	// active is which name node has answered last, for all clients that were made of this one.
	active *atomic.Int64
}

// requestTime bounds a request that moves no data.
const requestTime = 30 * time.Second

// New returns a client. It asks nobody yet, so a name node that is away is no error; a
// keytab that lacks the principal is one.
func New(o Options) (*Client, error) {
	switch {
	case len(o.NameNodes) == 0:
		return nil, errors.New("HDFS: no name node is given; give its HTTP address, such as http://namenode:9870")
	case (o.User == "") == (o.Kerberos == nil):
		return nil, errors.New("HDFS: give a user or who to be by Kerberos, one of them")
	}
	for _, n := range o.NameNodes {
		if u, err := url.Parse(n); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("HDFS: %q is not the HTTP address of a name node", n)
		}
	}
	c := &Client{o: o, http: o.Client, most: maxAnswer, active: new(atomic.Int64)}
	if c.http == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil
		c.http = &http.Client{Transport: t}
	}
	if o.Kerberos != nil {
		if err := o.Kerberos.check(); err != nil {
			return nil, err
		}
		c.http = o.Kerberos.proving(c.http)
	}
	return c, nil
}

// As returns a client that does everything with the rights of user, as a proxy user: the
// name nodes must be configured to let this one do so (ErrProxy). Whether the caller may
// act for user is the caller's to check.
func (c *Client) As(user string) (*Client, error) {
	if user == "" {
		return nil, errors.New("HDFS: no user is named to act for")
	}
	as := *c
	as.as = user
	return &as, nil
}

// Of returns a client that is another user, for a cluster without security. It shares
// connections, and what is known of the name nodes.
func (c *Client) Of(user string) (*Client, error) {
	if user == "" || c.o.Kerberos != nil {
		return nil, errors.New("HDFS: only a user can be replaced by another")
	}
	of := *c
	of.o.User, of.as = user, ""
	return &of, nil
}

// String names the HDFS by its first name node.
func (c *Client) String() string { return c.o.NameNodes[0] }

// FileInfo describes a file or directory.
type FileInfo struct {
	Name     string // in its directory; empty from Stat
	Dir      bool
	Size     int64 // in bytes; 0 of a directory
	Modified time.Time
	Mode     fs.FileMode // the permissions
	Owner    string
	// ErasureCoded: its blocks are cells of stripes, not parts of the file in order.
	ErasureCoded bool
}

// fileStatus is HDFS's own form of FileInfo.
type fileStatus struct {
	PathSuffix       string `json:"pathSuffix"`
	Type             string `json:"type"`
	Length           int64  `json:"length"`
	ModificationTime int64  `json:"modificationTime"` // milliseconds
	Permission       string `json:"permission"`       // octal
	Owner            string `json:"owner"`
	ECBit            bool   `json:"ecBit"`
}

func (s fileStatus) info() (FileInfo, error) {
	mode, err := strconv.ParseUint(s.Permission, 8, 32)
	return FileInfo{
		Name: s.PathSuffix, Dir: s.Type == "DIRECTORY", Size: s.Length,
		Modified: time.UnixMilli(s.ModificationTime), Mode: fs.FileMode(mode) & fs.ModePerm, Owner: s.Owner, ErasureCoded: s.ECBit,
	}, err
}

// Stat describes what is at a path.
func (c *Client) Stat(ctx context.Context, path string) (FileInfo, error) {
	var out struct{ FileStatus fileStatus }
	if _, err := c.call(ctx, http.MethodGet, path, query("GETFILESTATUS"), &out); err != nil {
		return FileInfo{}, err
	}
	return out.FileStatus.info()
}

// ReadDir describes what is in a directory, sorted by name; of a file it returns
// nothing.
func (c *Client) ReadDir(ctx context.Context, path string) ([]FileInfo, error) {
	var list []FileInfo
	for f, err := range c.Entries(ctx, path) {
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// Entries yields what is in a directory, in the order of the name node: by the bytes of
// names, as Java has them, those that are not ASCII first. One answer has as many as the
// name node gives at once (dfs.ls.limit, 1000 as a rule), so that a directory may be of any
// size. An error is the last that it yields.
func (c *Client) Entries(ctx context.Context, path string) iter.Seq2[FileInfo, error] {
	return c.EntriesAfter(ctx, path, "")
}

// EntriesAfter yields what Entries does, from behind a name on, which need not be there.
func (c *Client) EntriesAfter(ctx context.Context, path, after string) iter.Seq2[FileInfo, error] {
	return func(yield func(FileInfo, error) bool) {
		for after, more := after, true; more; {
			var out struct {
				DirectoryListing struct {
					PartialListing struct {
						FileStatuses struct{ FileStatus []fileStatus }
					} `json:"partialListing"`
					RemainingEntries int64 `json:"remainingEntries"`
				}
			}
			q := query("LISTSTATUS_BATCH")
			if after != "" {
				q.Set("startafter", after) // not as Hadoop's documentation spells it
			}
			if _, err := c.call(ctx, http.MethodGet, path, q, &out); err != nil {
				yield(FileInfo{}, err)
				return
			}
			more = out.DirectoryListing.RemainingEntries > 0
			from := after
			for _, s := range out.DirectoryListing.PartialListing.FileStatuses.FileStatus {
				if s.PathSuffix == "" {
					return // path is a file
				}
				f, err := s.info()
				if err == nil {
					err = checkName(f.Name)
				}
				if !yield(f, err) || err != nil {
					return
				}
				after = f.Name
			}
			if more && CompareNames(after, from) <= 0 {
				yield(FileInfo{}, fmt.Errorf("HDFS: the list of %s does not go on after %q", path, from))
				return
			}
		}
	}
}

// CompareNames compares two names of a directory as a name node lists them: less than 0 when a comes first.
func CompareNames(a, b string) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Compare(int8(a[i]), int8(b[i])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// Open returns the contents of a file. The caller closes them; reading ends with ctx. A data node from which nothing comes
// for a minute while it is waited for is given up: that is an error.
func (c *Client) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.OpenAt(ctx, path, 0)
}

// OpenAt is Open from an offset in bytes on, which is less than the file has, or 0.
func (c *Client) OpenAt(ctx context.Context, path string, offset int64) (io.ReadCloser, error) {
	return c.openWithout(ctx, path, offset, nil)
}

// openWithout is OpenAt from other data nodes than those with these addresses.
func (c *Client) openWithout(ctx context.Context, path string, offset int64, nodes []string) (io.ReadCloser, error) {
	q := query("OPEN", "noredirect", "true", "offset", strconv.FormatInt(offset, 10))
	if len(nodes) > 0 {
		q.Set("excludedatanodes", strings.Join(nodes, ","))
	}
	r, err := c.open(ctx, path, q)
	var remote *RemoteError
	if errors.As(err, &remote) && remote.stale() {
		return c.open(ctx, path, q)
	}
	return r, err
}

func (c *Client) open(ctx context.Context, path string, q url.Values) (io.ReadCloser, error) {
	from, err := c.redirect(ctx, http.MethodGet, path, q)
	if err != nil {
		return nil, err
	}
	w := newWatch(ctx, still.reading)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, from, nil)
	var body io.ReadCloser = http.NoBody
	if err == nil {
		_, err = w.wait(func() (int, error) {
			resp, err := c.http.Do(req)
			if err == nil {
				body = resp.Body
				if resp.StatusCode != http.StatusOK {
					err = remoteError(resp)
				}
			}
			return 0, err
		})
	}
	r := watchedBody{w, body}
	if err != nil {
		r.Close()
		return nil, redact(err)
	}
	return r, nil
}

// Create writes a new file in a directory that exists; a file that exists is left as it
// is (fs.ErrExist). Data nodes have the blocks on disk when Create returns (SYNC_BLOCK).
// write is called at most once; when it or Create fails, a file with part of the
// contents may be left. The data node is given up when it has taken nothing that was written for five minutes, or not
// answered for as long when all was.
func (c *Client) Create(ctx context.Context, path string, mode fs.FileMode, write func(io.Writer) error) error {
	q := query("CREATE", "overwrite", "false", "createparent", "false", "permission", octal(mode), "createflag", "CREATE,SYNC_BLOCK", "noredirect", "true")
	to, err := c.redirect(ctx, http.MethodPut, path, q)
	if err != nil {
		return err
	}
	watch := newWatch(ctx, still.writing)
	defer watch.end()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(watchedWriter{watch, w})
		if err != nil {
			watch.cancel(nil) // else the data node would end the file well
		}
		watch.timer.Reset(watch.most)
		w.CloseWithError(err)
		written <- err
	}()
	req, err := http.NewRequestWithContext(watch.ctx, http.MethodPut, to, r)
	if err == nil {
		req.Header.Set("Content-Type", "application/octet-stream")
		err = c.send(req)
	}
	r.CloseWithError(errors.Join(io.ErrClosedPipe, err))
	werr := <-written
	switch {
	case err != nil && watch.why(err) != err:
		return fmt.Errorf("create %s: %w", path, watch.why(err))
	case werr != nil && (err == nil || errors.Is(err, context.Canceled)):
		return werr
	}
	return err
}

// MkdirAll makes a directory, and those above it. It may exist; then its mode stays.
func (c *Client) MkdirAll(ctx context.Context, path string, mode fs.FileMode) error {
	return c.must(ctx, http.MethodPut, path, query("MKDIRS", "permission", octal(mode)))
}

// Rename gives a file or directory a new path, in one step and durably. HDFS does not
// say why it refuses (ErrRefused): from is missing, or the directory of to is, or there
// is something at to. If to is a directory, from is moved into it.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	if err := checkPath(to); err != nil {
		return err
	}
	return c.must(ctx, http.MethodPut, from, query("RENAME", "destination", to))
}

// Replace is Rename that has from take the place of a file which may be at to, in the same step. Its errors say why it is refused.
func (c *Client) Replace(ctx context.Context, from, to string) error {
	if err := checkPath(to); err != nil {
		return err
	}
	_, err := c.call(ctx, http.MethodPut, from, query("RENAME", "destination", to, "renameoptions", "OVERWRITE"), nil)
	return err
}

// Chmod changes the permissions of a file or directory.
func (c *Client) Chmod(ctx context.Context, path string, mode fs.FileMode) error {
	_, err := c.call(ctx, http.MethodPut, path, query("SETPERMISSION", "permission", octal(mode)), nil)
	return err
}

// SetModified sets the time of modification of a file; HDFS keeps milliseconds.
func (c *Client) SetModified(ctx context.Context, path string, at time.Time) error {
	_, err := c.call(ctx, http.MethodPut, path, query("SETTIMES", "modificationtime", strconv.FormatInt(at.UnixMilli(), 10)), nil)
	return err
}

// RemoveAll removes a file, or a directory with all that is in it, in one step. It may
// be gone already.
func (c *Client) RemoveAll(ctx context.Context, path string) error {
	_, err := c.call(ctx, http.MethodDelete, path, query("DELETE", "recursive", "true"), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Now tells the name node's clock, to a second. A path that the user may look at must
// be given.
func (c *Client) Now(ctx context.Context, path string) (time.Time, error) {
	head, err := c.call(ctx, http.MethodGet, path, query("GETFILESTATUS"), nil)
	if err != nil {
		return time.Time{}, err
	}
	return http.ParseTime(head.Get("Date"))
}

func octal(mode fs.FileMode) string { return strconv.FormatUint(uint64(mode.Perm()), 8) }
