package image

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

const filesMagic = 0x56303138

// encodeFile makes an image file of encoded messages.
func encodeFile(messages ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, commonMagic)
	b = binary.LittleEndian.AppendUint32(b, filesMagic)
	for _, m := range messages {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(m)))
		b = append(b, m...)
	}
	return b
}

// sample returns a message with fields of every type, one of them twice, and a varint
// that is longer than it must be.
func sample() []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	b = protowire.AppendBytes(protowire.AppendTag(b, 6, protowire.BytesType), []byte("/tmp/f"))
	b = protowire.AppendFixed32(protowire.AppendTag(b, 100, protowire.Fixed32Type), 5)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 101, protowire.Fixed64Type), 6)
	b = append(protowire.AppendTag(b, 1, protowire.VarintType), 0x89, 0x80, 0x00)
	return b
}

func TestUntouchedFileComesOutAsItWas(t *testing.T) {
	b := encodeFile(sample(), nil, sample())
	f, err := Parse(bytes.Clone(b))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Entries) != 3 || binary.LittleEndian.Uint32(f.head[len(f.head)-4:]) != filesMagic {
		t.Fatalf("%d entries, magic %x", len(f.Entries), f.head)
	}
	if !bytes.Equal(f.Encode(), b) {
		t.Errorf("got  %x\nwant %x", f.Encode(), b)
	}
}

func TestFieldsAreReadAndSet(t *testing.T) {
	m, err := ParseMessage(sample())
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := m.Uint(1); !ok || v != 9 {
		t.Errorf("the last value of field 1 is %d, %v", v, ok)
	}
	if s, ok := m.Bytes(6); !ok || string(s) != "/tmp/f" {
		t.Errorf("field 6 is %q, %v", s, ok)
	}
	if _, ok := m.Uint(6); ok {
		t.Error("a string was read as a number")
	}
	changed := m.SetBytes(6, []byte("/elsewhere")).SetUint(1, 300).SetUint(50, 1)
	if s, _ := changed.Bytes(6); string(s) != "/elsewhere" {
		t.Errorf("field 6 is %q after it was set", s)
	}
	if v, _ := changed.Uint(1); v != 300 {
		t.Errorf("field 1 is %d after it was set", v)
	}
	if v, ok := changed.Uint(50); !ok || v != 1 {
		t.Errorf("the new field is %d, %v", v, ok)
	}
	again, err := ParseMessage(changed.Encode())
	if err != nil || len(again) != len(m)+1 {
		t.Fatalf("%d fields, %v", len(again), err)
	}
	if !bytes.Equal(m.Encode(), sample()) {
		t.Error("the message that it was made from has changed")
	}
}

func TestRepeatedFields(t *testing.T) {
	var m Message
	sub := Message(nil).SetUint(1, 3)
	m = append(m.SetMessage(14, sub), m.SetMessage(14, sub.SetUint(1, 4))...)
	list, err := m.Messages(14)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d messages, %v", len(list), err)
	}
	if v, _ := list[1].Uint(1); v != 4 {
		t.Errorf("the second one has %d", v)
	}
	packed := Message(nil).SetBytes(5, []byte{1, 0x80, 1})
	packed = append(packed, Message(nil).SetUint(5, 9)...)
	got, err := packed.Uints(5)
	if err != nil || len(got) != 3 || got[0] != 1 || got[1] != 128 || got[2] != 9 {
		t.Errorf("numbers are %v, %v", got, err)
	}
	if _, err := Message(nil).SetBytes(5, []byte{0x80}).Uints(5); err == nil {
		t.Error("a number that breaks off was read")
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	whole := encodeFile(sample())
	for n := range whole {
		if n == 8 { // no entries
			continue
		}
		if _, err := Parse(whole[:n:n]); err == nil {
			t.Errorf("%d of %d bytes were taken for a whole file", n, len(whole))
		}
	}
	if _, err := Parse(encodeFile([]byte{0xff, 0xff})); err == nil {
		t.Error("a message that breaks off was taken")
	}
}

func TestDirShowsChangedFiles(t *testing.T) {
	top := t.TempDir()
	stored := filepath.Join(top, "000002")
	if err := os.Mkdir(stored, 0o700); err != nil {
		t.Fatal(err)
	}
	before := encodeFile(sample())
	for name, b := range map[string][]byte{"files.img": before, "pages-1.img": []byte("pages")} {
		if err := os.WriteFile(filepath.Join(stored, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../000001", filepath.Join(stored, "parent")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(top, "000001"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(top, "images")
	if err := os.MkdirAll(filepath.Join(path, "left", "behind"), 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := NewDir(path, stored)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(filepath.Join(d.Path(), "files.img"))
	if err != nil {
		t.Fatal(err)
	}
	f.Entries[0] = f.Entries[0].SetBytes(6, []byte("/proc/1/fd/9"))
	if err := d.Replace("files.img", f); err != nil {
		t.Fatal(err)
	}
	if f, err = Read(filepath.Join(d.Path(), "files.img")); err != nil {
		t.Fatal(err)
	}
	if s, _ := f.Entries[0].Bytes(6); string(s) != "/proc/1/fd/9" {
		t.Errorf("the copy says %q", s)
	}
	if b, _ := os.ReadFile(filepath.Join(stored, "files.img")); !bytes.Equal(b, before) {
		t.Error("the stored image has changed")
	}
	if b, _ := os.ReadFile(filepath.Join(path, "pages-1.img")); string(b) != "pages" {
		t.Errorf("another file reads %q", b)
	}
	if st, err := os.Stat(filepath.Join(path, "parent")); err != nil || !st.IsDir() {
		t.Errorf("the parent image is not to be found: %v", err)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v", st.Mode())
	}
	if err := d.Replace("../x", f); err == nil {
		t.Error("a file outside of the directory was written")
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(stored, "pages-1.img")); err != nil {
		t.Errorf("the stored image went with it: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encodeFile(sample(), sample()))
	f.Add(encodeFile())
	f.Add([]byte{1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(bytes.Clone(b))
		if err != nil {
			return
		}
		if !bytes.Equal(file.Encode(), b) {
			t.Errorf("came out as %x", file.Encode())
		}
		for i, e := range file.Entries {
			for _, field := range e {
				e.Uint(field.Num)
				e.Uints(field.Num)
				e.Message(field.Num)
				e.Messages(field.Num)
			}
			file.Entries[i] = e.SetUint(1, 1).SetBytes(2, []byte("x"))
		}
		if _, err := Parse(file.Encode()); err != nil {
			t.Errorf("changed, it cannot be read any more: %v", err)
		}
	})
}
