package criu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func findOrSkip(t *testing.T) Criu {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("CRIU needs root")
	}
	c, err := Find()
	if err != nil {
		t.Skip(err)
	}
	return c
}

func TestSmoke(t *testing.T) {
	c := findOrSkip(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	begun := time.Now()
	if err := c.Smoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("CRIU %v at %s: %v", c.Version, c.Path, time.Since(begun))
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// failing returns a CRIU that dumps and then does as the script says.
func failing(t *testing.T, c Criu, script string) Criu {
	t.Helper()
	path := filepath.Join(t.TempDir(), "criu")
	text := "#!/bin/sh\nreal='" + c.Path + "'\n" + script + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return Criu{Path: path, Version: c.Version}
}

func TestSmokeFindsWhatDoesNotWork(t *testing.T) {
	c := findOrSkip(t)
	cases := []struct {
		name, script, step, text string
	}{
		{"dump refused", `echo 'Error (criu/sk-inet.c:200): inet: Connected TCP socket, consider using --tcp-established option.' >"$3/$5"; exit 1`,
			"dump", "connections are not to be kept"},
		{"dump that kills nothing", `[ $1 = dump ] && exec "$real" "$@" --leave-running; exec "$real" "$@"`, "dump", ""},
		{"restore refused", `[ $1 = restore ] && exit 7; exec "$real" "$@"`, "restore", "exit status 7"},
		{"damaged images", `[ $1 = restore ] && rm "$3"/core-*.img; exec "$real" "$@"`, "restore", "damaged"},
		{"restore that does nothing", `[ $1 = restore ] && exit 0; exec "$real" "$@"`, "check", "no such file"},
		{"no program", `exit 127`, "dump", "127"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			hangs, within := tc.name == "dump that kills nothing", time.Minute
			if hangs {
				within = 3 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			err := failing(t, c, tc.script).Smoke(ctx)
			if hangs {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("want the deadline, got %v", err)
				}
				return
			}
			var failure *SmokeError
			if !errors.As(err, &failure) {
				t.Fatalf("want a SmokeError, got %v", err)
			}
			if failure.Step != tc.step || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("want step %q and %q in %q", tc.step, tc.text, err)
			}
		})
	}
}

func TestSmokeStopsWhenTold(t *testing.T) {
	c := findOrSkip(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Smoke(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
