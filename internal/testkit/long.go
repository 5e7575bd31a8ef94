package testkit

import (
	"os"
	"testing"
)

// allTests is set in the environment to "all" where long tests are to run too (make test-all).
const allTests = "HEADRACE_TESTS"

// Long skips a test that takes long, and whose subject other tests have as well, in a smaller form or in another variation.
func Long(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("takes long; make test-all runs it")
	}
}

// All tells whether long tests are to run.
func All() bool { return os.Getenv(allTests) == "all" }
