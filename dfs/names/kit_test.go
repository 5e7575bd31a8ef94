package names

import (
	"log/slog"
	"strings"
	"testing"
)

type logTo struct{ testing.TB }

func (l logTo) Write(b []byte) (int, error) { l.Log(strings.TrimSpace(string(b))); return len(b), nil }

func testLog(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(logTo{t}, nil)) }
