package doctor

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestThisMachine(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	findings := Check(t.Context(), Options{StateDir: "/var/lib/headrace/not/yet/there", NoSmoke: true})
	names := map[string]bool{}
	for _, f := range findings {
		t.Logf("%-16s %-7s %s", f.Name, f.Status, f.What)
		if names[f.Name] {
			t.Errorf("%s: twice", f.Name)
		}
		names[f.Name] = true
		wellFormed(t, f)
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// wellFormed checks that a finding says all that a person needs.
func wellFormed(t *testing.T, f Finding) {
	t.Helper()
	if f.Name == "" || f.What == "" || !strings.HasSuffix(f.Why, ".") {
		t.Errorf("incomplete: %+v", f)
	}
	switch f.Status {
	case OK:
		if f.How != "" {
			t.Errorf("%s is fine, and yet: %s", f.Name, f.How)
		}
	case Warning, Unknown:
	case Missing:
		if f.How == "" {
			t.Errorf("%s is missing, and nothing says how to get it", f.Name)
		}
	default:
		t.Errorf("%s has the status %q", f.Name, f.Status)
	}
}

func TestAbsentMachine(t *testing.T) {
	m := machine{root: t.TempDir(), uid: 1000}
	for _, f := range []Finding{
		m.user(), m.kernel(), m.tracing(), m.swap(), m.swappiness(), m.memoryCgroup(), m.freezer(), m.overcommit(),
		m.reclaimers(), m.sharedMemory(), m.clock(), m.fuse(), m.loopDevices(), m.throttling(), m.oom(), m.storage("storage", "/", true),
	} {
		wellFormed(t, f)
	}
}

func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range Check(ctx, Options{}) {
		wellFormed(t, f)
		tried := f.Name == "namespaces" || f.Name == "page-out"
		if tried && (f.Status != Unknown || !strings.Contains(f.What, context.Canceled.Error())) {
			t.Errorf("%s: %s, %s", f.Name, f.Status, f.What)
		}
	}
}

func TestJSON(t *testing.T) {
	b, err := json.Marshal(Finding{Name: "n", Status: Missing, What: "a", Why: "b"})
	if want := `{"name":"n","status":"missing","what":"a","why":"b"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}
