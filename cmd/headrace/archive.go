package main

import (
	"context"
	"log/slog"
	"strings"

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
	o := &migrate.Observer{CRIU: func() string { // it may be replaced while the daemon runs
		if c.CRIU == "" {
			return ""
		}
		found, err := criu.At(c.CRIU)
		if err != nil {
			return "" // as without one
		}
		return found.Version.String()
	}}
	return &migrate.Mover{Name: where, Observer: o, Node: node, Log: log, Open: func(ctx context.Context) (*migrate.Archive, error) {
		p, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return migrate.New(ctx, p, []byte(tokens[0]), migrate.Options{Compress: compressed, AcceptedTokens: tokens[1:]})
	}}, nil
}
