package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"

	"headrace/blob"
	"headrace/cli"
	"headrace/internal/criu"
	"headrace/migrate"
	"headrace/solo"
)

// newMover opens an archive in DIR or webhdfs://[USER@]HOST:PORT/DIR, with ",zstd"
// behind it compressed. What cannot be an archive is an error. A place that cannot be
// reached now is none, since containers do not wait for it: it is opened when it is
// needed.
func newMover(spec string, tokens []string, node string, c *solo.Config, log *slog.Logger) (*migrate.Mover, error) {
	where, compressed := strings.CutSuffix(spec, ",zstd")
	open, err := blob.Find(where)
	if err != nil {
		return nil, cli.UsageErrorf("--archive: %w", err)
	}
	return &migrate.Mover{Name: where, Observer: &migrate.Observer{CRIU: criuVersion(c.CRIU)}, Node: node, Log: log, Open: func(ctx context.Context) (*migrate.Archive, error) {
		p, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return migrate.New(ctx, p, []byte(tokens[0]), migrate.Options{Compress: compressed, AcceptedTokens: tokens[1:]})
	}}, nil
}

// criuVersion returns what tells the version of the CRIU at a path, which may be replaced while the daemon runs. One that does
// not say it now, as the machine is short of memory, is what it has said before if it is the same file.
func criuVersion(path string) func(context.Context) (string, error) {
	if path == "" {
		return func(context.Context) (string, error) { return "", nil }
	}
	var mu sync.Mutex
	var known string
	var of os.FileInfo
	return func(ctx context.Context) (string, error) {
		now, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		found, err := criu.At(ctx, path)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			known, of = found.Version.String(), now
			return known, nil
		}
		if of != nil && os.SameFile(now, of) && now.Size() == of.Size() && now.ModTime().Equal(of.ModTime()) {
			return known, nil
		}
		return "", err
	}
}
