package hdfstest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A Shared HDFS is one for all tests of a package. It is started when the first test asks
// for it. The package's TestMain stops it in the end.
type Shared struct {
	// Properties are those that Start is given; set them before any test runs.
	Properties []string

	mu    sync.Mutex
	tried bool
	hdfs  *HDFS
	err   error
}

// Get returns the HDFS. The test is skipped where there is nothing to run HDFS with, and
// among short tests.
func (s *Shared) Get(t testing.TB) *HDFS {
	t.Helper()
	notShort(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		s.tried = true
		s.hdfs, s.err = Start(gathered("cluster/target/hadoop"), s.Properties...)
	}
	started(t, s.err)
	return s.hdfs
}

func notShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("HDFS is not started in short tests")
	}
}

// started skips a test where there is nothing to run HDFS with, and ends it where the start has failed.
func started(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Stop ends what Get has started.
func (s *Shared) Stop() {
	if s.hdfs != nil {
		s.hdfs.Stop()
	}
}

// gathered returns where the build below java gathers jars, as seen from the
// directory of a package of this module.
func gathered(dir string) string {
	top := "."
	for range 5 {
		if _, err := os.Stat(filepath.Join(top, "go.mod")); err == nil {
			break
		}
		top = filepath.Join(top, "..")
	}
	return filepath.Join(top, "java", dir)
}
