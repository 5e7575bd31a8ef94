package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HDFS says where an archive is in HDFS and how to reach it.
type HDFS struct {
	// NameNodes are the HTTP addresses of the name nodes, such as
	// http://nn1:9870; with several the active one is looked for.
	NameNodes []string
	// Dir is the absolute path of the archive. It must belong to the user and be
	// closed to others; it is made if it does not exist.
	Dir string
	// User is who to be, for a cluster without security; Delegation is a delegation
	// token for one with. One of them must be given. A delegation token is not
	// renewed here.
	User, Delegation string
	// Client; nil: one that uses no proxy.
	Client *http.Client
}

// hdfsPlace is a directory in HDFS, reached over its REST API.
type hdfsPlace struct {
	HDFS
	client *http.Client
}

// metadataTimeout bounds a request that moves no data.
const metadataTimeout = 30 * time.Second

// WebHDFS returns the place in a directory of HDFS.
func WebHDFS(ctx context.Context, o HDFS) (Place, error) {
	switch {
	case len(o.NameNodes) == 0:
		return nil, errors.New("archive in HDFS: no name node is given; give its HTTP address, such as http://namenode:9870")
	case !path.IsAbs(o.Dir) || path.Clean(o.Dir) != o.Dir || o.Dir == "/":
		return nil, fmt.Errorf("archive in HDFS: %q is not the absolute path of a directory", o.Dir)
	case (o.User == "") == (o.Delegation == ""):
		return nil, errors.New("archive in HDFS: give a user or a delegation token, one of them")
	}
	for _, n := range o.NameNodes {
		if u, err := url.Parse(n); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("archive in HDFS: %q is not the HTTP address of a name node", n)
		}
	}
	h := &hdfsPlace{HDFS: o, client: o.Client}
	if h.client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil
		h.client = &http.Client{Transport: t}
	}
	if err := h.Mkdir(ctx, ""); err != nil {
		return nil, fmt.Errorf("archive %s: %w", h, err)
	}
	return h, h.checkPermission(ctx)
}

func (h *hdfsPlace) checkPermission(ctx context.Context) error {
	st, err := h.status(ctx, "")
	if err != nil {
		return fmt.Errorf("archive %s: %w", h, err)
	}
	mode, err := strconv.ParseUint(st.Permission, 8, 32)
	if err != nil || mode&0o077 != 0 {
		return fmt.Errorf("archive %s is open to others (mode %s); images hold the memory of programs: hdfs dfs -chmod 700 %s", h, st.Permission, h.Dir)
	}
	return nil
}

func (h *hdfsPlace) String() string { return h.NameNodes[0] + h.Dir }

// fileStatus is HDFS's.
type fileStatus struct {
	PathSuffix       string `json:"pathSuffix"`
	Type             string `json:"type"`
	Length           int64  `json:"length"`
	ModificationTime int64  `json:"modificationTime"` // milliseconds
	Permission       string `json:"permission"`
}

func (s fileStatus) object() Object {
	return Object{Name: s.PathSuffix, Dir: s.Type == "DIRECTORY", Size: s.Length, Modified: time.UnixMilli(s.ModificationTime)}
}

func (h *hdfsPlace) status(ctx context.Context, name string) (fileStatus, error) {
	var out struct{ FileStatus fileStatus }
	_, err := h.call(ctx, http.MethodGet, name, query("GETFILESTATUS"), &out)
	return out.FileStatus, err
}

func (h *hdfsPlace) Create(ctx context.Context, name string, write func(io.Writer) error) error {
	if name == "" {
		return fs.ErrExist
	}
	q := query("CREATE", "overwrite", "false", "createparent", "false", "permission", "600", "createflag", "CREATE,SYNC_BLOCK", "noredirect", "true")
	to, err := h.redirect(ctx, http.MethodPut, name, q)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		if err != nil {
			cancel() // else the data node would end the file well
		}
		w.CloseWithError(err)
		written <- err
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to, r)
	if err == nil {
		req.Header.Set("Content-Type", "application/octet-stream")
		err = h.send(req)
	}
	r.CloseWithError(errors.Join(io.ErrClosedPipe, err))
	if werr := <-written; werr != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return werr
	}
	return err
}

func (h *hdfsPlace) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	from, err := h.redirect(ctx, http.MethodGet, name, query("OPEN", "noredirect", "true"))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, h.redact(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, remoteError(resp)
	}
	return resp.Body, nil
}

func (h *hdfsPlace) Mkdir(ctx context.Context, name string) error {
	return h.must(ctx, http.MethodPut, name, query("MKDIRS", "permission", "700"))
}

func (h *hdfsPlace) Rename(ctx context.Context, from, to string) error {
	if err := errors.Join(checkName(from), checkName(to)); err != nil {
		return err
	}
	if _, err := h.status(ctx, to); err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	var out struct{ Boolean bool }
	_, err := h.call(ctx, http.MethodPut, from, query("RENAME", "destination", path.Join(h.Dir, to)), &out)
	if err == nil && out.Boolean {
		return nil
	}
	// The answer to a first try may have been lost.
	if _, serr := h.status(ctx, to); serr == nil {
		return nil
	}
	if err == nil {
		err = &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	return err
}

func (h *hdfsPlace) List(ctx context.Context, dir string) ([]Object, error) {
	var out struct {
		FileStatuses struct{ FileStatus []fileStatus }
	}
	if _, err := h.call(ctx, http.MethodGet, dir, query("LISTSTATUS"), &out); err != nil {
		return nil, err
	}
	var list []Object
	for _, s := range out.FileStatuses.FileStatus {
		if s.PathSuffix != "" && checkName(s.PathSuffix) == nil { // "" is a file that was to be a directory
			list = append(list, s.object())
		}
	}
	slices.SortFunc(list, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (h *hdfsPlace) Touch(ctx context.Context, name string) error {
	now, err := h.Now(ctx)
	if err != nil {
		return err
	}
	_, err = h.call(ctx, http.MethodPut, name, query("SETTIMES", "modificationtime", strconv.FormatInt(now.UnixMilli(), 10)), nil)
	return err
}

func (h *hdfsPlace) Remove(ctx context.Context, name string) error {
	if name == "" {
		return errors.New("the archive itself is not removed")
	}
	_, err := h.call(ctx, http.MethodDelete, name, query("DELETE", "recursive", "true"), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Now is the name node's clock, to a second.
func (h *hdfsPlace) Now(ctx context.Context) (time.Time, error) {
	head, err := h.call(ctx, http.MethodGet, "", query("GETFILESTATUS"), nil)
	if err != nil {
		return time.Time{}, err
	}
	return http.ParseTime(head.Get("Date"))
}

// must is a call that answers true.
func (h *hdfsPlace) must(ctx context.Context, method, name string, q url.Values) error {
	var out struct{ Boolean bool }
	if _, err := h.call(ctx, method, name, q, &out); err != nil {
		return err
	}
	if !out.Boolean {
		return fmt.Errorf("%s of %s: HDFS refuses", q.Get("op"), name)
	}
	return nil
}

// redirect asks the name node where the data goes to or comes from.
func (h *hdfsPlace) redirect(ctx context.Context, method, name string, q url.Values) (string, error) {
	var out struct{ Location string }
	if _, err := h.call(ctx, method, name, q, &out); err != nil {
		return "", err
	}
	if u, err := url.Parse(out.Location); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s of %s: HDFS names no data node: %.100q", q.Get("op"), name, out.Location)
	}
	return out.Location, nil
}

func query(op string, kv ...string) url.Values {
	q := url.Values{"op": {op}}
	for i := 0; i < len(kv); i += 2 {
		q.Set(kv[i], kv[i+1])
	}
	return q
}
