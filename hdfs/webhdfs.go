package hdfs

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
	"time"
)

// maxAnswer bounds a name node's answer: the places of some twenty thousand blocks.
const maxAnswer = 64 << 20

var errAnswer = errors.New("it is too long")

// call makes a request that moves no data, to the active name node, and reads its
// answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, q url.Values, out any) (http.Header, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if c.o.User != "" {
		q.Set("user.name", c.o.User)
	}
	if c.as != "" {
		q.Set("doas", c.as)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	at := (&url.URL{Path: "/webhdfs/v1" + path}).EscapedPath()
	at = strings.ReplaceAll(at, ";", "%3B") + "?" + q.Encode() // name nodes before Hadoop 3.5 drop what follows one as a parameter of the path
	var errs []error
	first, all := int(c.active.Load()), len(c.o.NameNodes)
	for i := range all {
		n := (first + i) % all
		head, err := c.askInTime(ctx, all-i, method, strings.TrimSuffix(c.o.NameNodes[n], "/")+at, out)
		var remote *RemoteError
		switch {
		case err == nil, errors.Is(err, errAnswer), ctx.Err() != nil, errors.As(err, &remote) && !remote.elsewhere():
			c.active.Store(int64(n))
			return head, c.advise(err)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// askInTime leaves their part of the time to the name nodes after this one, so many with it:
// one whose process or machine stands still takes connections and does not answer.
func (c *Client) askInTime(ctx context.Context, left int, method, url string, out any) (http.Header, error) {
	if by, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(by)/time.Duration(left))
		defer cancel()
	}
	return c.ask(ctx, method, url, out)
}

var errPath = errors.New("not a clean absolute path")

func checkPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p {
		return fmt.Errorf("HDFS: %q: %w", p, errPath)
	}
	return nil
}

// checkName refuses what cannot be a name in a directory.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return fmt.Errorf("HDFS: the name node lists %q, which is no name", name)
	}
	return nil
}

func query(op string, kv ...string) url.Values {
	q := url.Values{"op": {op}}
	for i := 0; i < len(kv); i += 2 {
		q.Set(kv[i], kv[i+1])
	}
	return q
}

// must makes a call that answers true.
func (c *Client) must(ctx context.Context, method, path string, q url.Values) error {
	var out struct{ Boolean bool }
	if _, err := c.call(ctx, method, path, q, &out); err != nil {
		return err
	}
	if !out.Boolean {
		return &fs.PathError{Op: strings.ToLower(q.Get("op")), Path: path, Err: ErrRefused}
	}
	return nil
}

// redirect asks the name node where the data goes to or comes from.
func (c *Client) redirect(ctx context.Context, method, path string, q url.Values) (string, error) {
	var out struct{ Location string }
	if _, err := c.call(ctx, method, path, q, &out); err != nil {
		return "", err
	}
	if u, err := url.Parse(out.Location); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s of %s: HDFS names no data node: %.100q", q.Get("op"), path, out.Location)
	}
	return out.Location, nil
}

func (c *Client) ask(ctx context.Context, method, url string, out any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, redact(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, redact(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return nil, remoteError(resp)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, c.most+1))
	if err == nil && int64(len(b)) > c.most {
		err = fmt.Errorf("answer of %s: %w: more than %d bytes", req.URL.Host, errAnswer, c.most)
	}
	if err != nil {
		return nil, redact(err)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			return nil, fmt.Errorf("answer of %s: %w", req.URL.Host, err)
		}
	}
	return resp.Header, nil
}

// send makes a request that sends data.
func (c *Client) send(req *http.Request) error {
	resp, err := c.http.Do(req)
	if err != nil {
		return redact(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return remoteError(resp)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, c.most))
	return err
}

// redact keeps addresses out of error messages: that of a data node, as a name node with security names
// it, holds a delegation token.
func redact(err error) error {
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
