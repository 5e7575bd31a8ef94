package names

import (
	"log/slog"
	"strings"
	"testing"

	"headrace/meta"
)

// newestMeta is a command as the newest nodes write it.
func newestMeta(m meta.Command) []byte {
	b, err := encodeMeta(m, newest)
	if err != nil {
		panic(err)
	}
	return b
}

type logTo struct{ testing.TB }

func (l logTo) Write(b []byte) (int, error) { l.Log(strings.TrimSpace(string(b))); return len(b), nil }

func testLog(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(logTo{t}, nil)) }
