package migrate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"headrace/blob"
	"headrace/hdfs"
	"headrace/hdfs/hdfstest"
	"headrace/internal/testkit"
)

var (
	testHDFS hdfstest.Shared
	places   atomic.Int32
)

func TestMain(m *testing.M) {
	code := testkit.M{M: m}.Run()
	testHDFS.Stop()
	os.Exit(code)
}

// eachPlace runs a test on every kind of place.
func eachPlace(t *testing.T, test func(t *testing.T, p blob.Place)) {
	t.Run("dir", func(t *testing.T) { test(t, newDir(t)) })
	t.Run("hdfs", func(t *testing.T) { test(t, newHDFS(t)) })
}

func newDir(t testing.TB) blob.Place {
	t.Helper()
	p, err := blob.Dir(filepath.Join(t.TempDir(), "archive"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newHDFS returns a place in a directory of its own.
func newHDFS(t testing.TB) blob.Place {
	t.Helper()
	p, err := openHDFS(t.Context(), testHDFS.Get(t).URL(), fmt.Sprintf("/apps/headrace%d", places.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func openHDFS(ctx context.Context, url, dir string) (blob.Place, error) {
	c, err := hdfs.New(hdfs.Options{NameNodes: []string{url}, User: hdfstest.User})
	if err != nil {
		return nil, err
	}
	return blob.HDFS(ctx, c, dir)
}
