package main

import (
	"context"
	"log/slog"
	"net/url"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"headrace/internal/criu"
	"headrace/proc/archive"
	"headrace/solo"
)

// sweepEvery is how often a node looks after what died machines have left in the
// archive.
const sweepEvery = 5 * time.Minute

// newArchive is for DIR or webhdfs://[USER@]HOST:PORT/DIR, with ",zstd" behind it
// compressed. It is opened when it is needed: it may not be there yet.
func newArchive(spec, token, node string, c *solo.Config) (*solo.Archive, error) {
	where, compressed := strings.CutSuffix(spec, ",zstd")
	place, err := archivePlace(where)
	if err != nil {
		return nil, err
	}
	o := &archive.Observer{Shim: c.Shim}
	if found, err := criu.Find(); err == nil && c.CRIU != "" {
		o.CRIU = found.Version.String()
	}
	return &solo.Archive{Name: where, Observer: o, Node: node, Open: func(ctx context.Context) (*archive.Archive, error) {
		p, err := place(ctx)
		if err != nil {
			return nil, err
		}
		return archive.New(ctx, p, []byte(token), archive.Options{Compress: compressed})
	}}, nil
}

// archivePlace says how to reach the place of an archive.
func archivePlace(where string) (func(context.Context) (archive.Place, error), error) {
	if filepath.IsAbs(where) {
		return func(context.Context) (archive.Place, error) { return archive.Dir(where) }, nil
	}
	u, err := url.Parse(where)
	if err != nil || u.Scheme != "webhdfs" || u.Host == "" || u.Path == "" {
		return nil, usageErrorf("--archive %q: give an absolute DIR, or webhdfs://[USER@]HOST:PORT/DIR", where)
	}
	name := u.User.Username()
	if name == "" {
		who, err := user.Current()
		if err != nil {
			return nil, err
		}
		name = who.Username
	}
	hdfs := archive.HDFS{NameNodes: []string{"http://" + u.Host}, Dir: u.Path, User: name}
	return func(ctx context.Context) (archive.Place, error) { return archive.WebHDFS(ctx, hdfs) }, nil
}

// sweep looks after the archive until ctx ends.
func sweep(ctx context.Context, a *solo.Archive, log *slog.Logger) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		swept, err := a.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("the archive could not be looked after", "archive", a.String(), "err", err)
		case swept.Offered+swept.Removed > 0:
			log.Info("left behind in the archive", "archive", a.String(), "offered again", swept.Offered, "removed", swept.Removed)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
