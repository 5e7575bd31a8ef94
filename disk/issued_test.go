package disk

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"os"
	"testing"
)

// The committed program is what was made of the source (scripts/generate-bpf).
func TestProgramIsOfItsSource(t *testing.T) {
	source, err := os.ReadFile("blockio.bpf.c")
	if err != nil {
		t.Fatal(err)
	}
	object, err := elf.NewFile(bytes.NewReader(blockio))
	if err != nil {
		t.Fatal(err)
	}
	section := object.Section(".sha256")
	if section == nil {
		t.Fatal("the object does not say what it was made of")
	}
	got, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(source)
	if want := hex.EncodeToString(sum[:]); string(got) != want {
		t.Errorf("made of a source with the hash %s, not %s: run scripts/generate-bpf", got, want)
	}
}
