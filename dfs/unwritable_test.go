package dfs

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/testkit"
)

// TestDirectoriesThatCannotBeWritten: of each it is told once what that means, why, and what to do, and once that it is over; other nodes are told meanwhile.
func TestDirectoriesThatCannotBeWritten(t *testing.T) {
	var log bytes.Buffer
	c := Config{Dir: t.TempDir(), Disks: []string{t.TempDir()}, Owner: "root", Upkeep: time.Hour, ScrubRate: -1, Run: filepath.Join(t.TempDir(), "run")}
	n := open(t, c)
	defer closeNode(t, n)
	n.stop() // its own looks
	n.running.Wait()
	n.Config.Log = slog.New(slog.NewTextHandler(&log, nil))
	look := func() []UnwritableDir {
		block.Attach(n.Blocks)
		lookAtDirectories(n)
		return RoomFrom(n.Room().Wire()).Unwritable
	}
	told := func(what string) int { return strings.Count(log.String(), what) }
	if got := look(); got != nil || log.Len() > 0 {
		t.Errorf("all can be written: %v, %s", got, &log)
	}
	for _, q := range []struct{ dir, at, says string }{
		{c.Dir, c.Dir, "the node ends"},
		{c.Run, c.Run, "restart the machine before this node"},
		{c.Disks[0], filepath.Join(c.Disks[0], "files"), "takes no blocks"},
	} {
		t.Run(filepath.Base(q.dir), func(t *testing.T) {
			log.Reset()
			end := testkit.ReadOnly(t, q.at)
			for range 3 {
				if got := look(); len(got) != 1 || got[0].Dir != q.dir || !strings.Contains(got[0].Cause, q.says) || !strings.Contains(got[0].Cause, "read-only file system: mount its file system to be written again") {
					t.Fatalf("%q", got)
				}
			}
			if told("a directory cannot be written") != 1 || told("dir="+q.dir+" ") != 1 {
				t.Errorf("it is told: %s", &log)
			}
			log.Reset()
			end()
			for range 3 {
				if got := look(); got != nil {
					t.Errorf("that is over: %q", got)
				}
			}
			if told("a directory can be written again") != 1 || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("that it is over is told: %s", &log)
			}
		})
	}
	log.Reset()
	if err := os.Rename(c.Run, c.Run+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Run, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := look(); len(got) != 1 || got[0].Dir != c.Run || told("put a directory there") != 1 {
		t.Errorf("a file is in its place: %q, %s", got, &log)
	}
}
