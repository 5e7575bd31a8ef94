package headrace_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Objects for BPF are committed. Each must have been built from the source
// beside it, as scripts/generate-bpf does.
func TestBPFObjectsAreOfTheirSources(t *testing.T) {
	sources := 0
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == ".git" || name == "bin" || name == "out") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".bpf.c") {
			sources++
			checkBPFObject(t, name, strings.TrimSuffix(name, ".c")+".o")
		}
		return nil
	})
	if err != nil || sources == 0 {
		t.Fatalf("%d sources found, %v", sources, err)
	}
}

func checkBPFObject(t *testing.T, source, object string) {
	t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Error(err)
		return
	}
	b, err := os.ReadFile(object)
	if err != nil {
		t.Errorf("%v: run scripts/generate-bpf", err)
		return
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Errorf("%s: %v", object, err)
		return
	}
	section := f.Section(".sha256")
	if section == nil {
		t.Errorf("%s does not say what it was built from: run scripts/generate-bpf", object)
		return
	}
	built, err := section.Data()
	sum := sha256.Sum256(text)
	if err != nil || string(built) != hex.EncodeToString(sum[:]) {
		t.Errorf("%s was built from another %s: run scripts/generate-bpf", object, source)
	}
	if f.Section(".debug_info") != nil {
		t.Errorf("%s has debug information", object)
	}
	if wd, err := os.Getwd(); err != nil || bytes.Contains(b, []byte(wd+"/")) {
		t.Errorf("%s names the directory it was built in (%v)", object, err)
	}
	if m := machinePath.Find(b); m != nil {
		t.Errorf("%s holds %q", object, m)
	}
}
