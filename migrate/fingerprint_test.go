package migrate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func aFingerprint() Fingerprint {
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Fingerprint{
		Arch: "amd64", PageSize: 4096, CPU: "GenuineIntel", Flags: []string{"avx2", "fpu", "ibrs"}, Kernel: "6.1.0-18-amd64", CRIU: "4.2.1",
		Files: []FileID{{Path: "/lib/libc.so.6", Size: 5, Sum: "c"}, {Path: "/data/large", Size: 1 << 40, MTime: when}},
	}
}

func TestCompare(t *testing.T) {
	for what, c := range map[string]struct {
		change func(here *Fingerprint)
		want   string // "": nothing differs
	}{
		"nothing":           {func(h *Fingerprint) {}, ""},
		"architecture":      {func(h *Fingerprint) { h.Arch = "arm64" }, "the architecture is arm64 here, and was amd64"},
		"pages":             {func(h *Fingerprint) { h.PageSize = 65536 }, "65536"},
		"vendor":            {func(h *Fingerprint) { h.CPU = "AuthenticAMD" }, "vendor"},
		"more flags":        {func(h *Fingerprint) { h.Flags = append(h.Flags, "avx512f") }, ""},
		"a flag less":       {func(h *Fingerprint) { h.Flags = []string{"fpu", "ibrs"} }, "lacks avx2"},
		"a kernel's flag":   {func(h *Fingerprint) { h.Flags = []string{"avx2", "fpu"} }, ""},
		"another patch":     {func(h *Fingerprint) { h.Kernel = "6.1.0-9-amd64" }, ""},
		"newer":             {func(h *Fingerprint) { h.Kernel = "6.12.3" }, ""},
		"newer major":       {func(h *Fingerprint) { h.Kernel = "10.0" }, ""},
		"older":             {func(h *Fingerprint) { h.Kernel = "5.15.0" }, "older than"},
		"unknown kernel":    {func(h *Fingerprint) { h.Kernel = "" }, "unknown"},
		"CRIU":              {func(h *Fingerprint) { h.CRIU = "4.1" }, "CRIU is 4.1 here"},
		"size":              {func(h *Fingerprint) { h.Files[0].Size = 6 }, "/lib/libc.so.6 has 6 bytes"},
		"contents":          {func(h *Fingerprint) { h.Files[0].Sum = "d" }, "/lib/libc.so.6 has other contents"},
		"time with a sum":   {func(h *Fingerprint) { h.Files[0].MTime = time.Now() }, ""},
		"time without":      {func(h *Fingerprint) { h.Files[1].MTime = time.Now() }, "/data/large is of"},
		"missing":           {func(h *Fingerprint) { h.Files[1].Err = "it does not exist" }, "/data/large cannot be used here: it does not exist"},
		"not looked at":     {func(h *Fingerprint) { h.Files = h.Files[:1] }, "not looked at"},
		"more files":        {func(h *Fingerprint) { h.Files = append(h.Files, FileID{Path: "/x"}) }, ""},
		"two things at all": {func(h *Fingerprint) { h.Arch, h.CRIU = "arm64", "1" }, "CRIU"},
	} {
		here := aFingerprint()
		c.change(&here)
		diff := aFingerprint().Compare(here)
		if text := strings.Join(diff, "; "); (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want something about %q", what, text, c.want)
		}
	}
	updated := aFingerprint()
	if err := json.Unmarshal([]byte(`{"shim": {"path": "/usr/local/bin/headrace-shim", "sum": "s"}}`), &updated); err != nil {
		t.Fatal(err)
	}
	if diff := updated.Compare(aFingerprint()); diff != nil {
		t.Errorf("after an update of the machine that sent it: %q", diff)
	}
}

// says is a CRIU.
func says(version string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return version, err }
}

// TestMachine: this machine is like itself.
func TestMachine(t *testing.T) {
	o := &Observer{CRIU: says("4.2.1", nil)}
	f, err := o.Machine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	machine := f
	if f.Arch == "" || f.PageSize < 4096 || len(f.Flags) < 5 || f.Kernel == "" {
		t.Errorf("%+v", f)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.AddFiles(t.Context(), o, []string{file, file, "/usr", "/dev/null"}); err != nil {
		t.Fatal(err)
	}
	if len(f.Files) != 3 {
		t.Errorf("files %+v", f.Files)
	}
	compare := func() []string {
		t.Helper()
		here, err := f.Here(t.Context(), o, machine, func(f func() error) error { return f() })
		if err != nil {
			t.Fatal(err)
		}
		return f.Compare(here)
	}
	if diff := compare(); diff != nil {
		t.Errorf("this machine differs from itself: %q", diff)
	}
	if err := os.WriteFile(file, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := compare(); len(diff) != 1 || !strings.Contains(diff[0], "other contents") {
		t.Errorf("a file has changed: %q", diff)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if diff := compare(); len(diff) != 1 || !strings.Contains(diff[0], "does not exist") {
		t.Errorf("a file is gone: %q", diff)
	}
	if err := f.AddFiles(t.Context(), o, []string{"/none"}); err == nil {
		t.Error("a file that is not there was taken")
	}
}
