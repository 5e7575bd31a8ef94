package journal

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"headrace/proc"
)

var update = flag.Bool("update", false, "write testdata/names")

// names lists the fields that a type has in JSON, and those of what it contains.
func names(t reflect.Type, path string, add func(string)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		names(t.Elem(), path, add)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported():
			case f.Anonymous && name == "":
				names(f.Type, path, add)
			case name == "":
				names(f.Type, path+"."+f.Name, add)
			default:
				add(path + "." + name)
				names(f.Type, path+"."+name, add)
			}
		}
	}
}

// TestVersionGoesWithNames: nobody adds a field without a thought for what an older daemon does that loses it.
func TestVersionGoesWithNames(t *testing.T) {
	var all []string
	for name, kind := range map[string]any{"record": Record{}, "meta": Meta{}, "spec": proc.Spec{}} {
		names(reflect.TypeOf(kind), name, func(s string) { all = append(all, s) })
	}
	slices.Sort(all)
	got := fmt.Sprintf("version %d\n%s\n", version, strings.Join(all, "\n"))
	const file = "testdata/names"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the names or the version are others than in %s: if an older daemon that loses what is new does something else than this one, "+
			"raise the version (see there); then go test ./solo/journal -run TestVersionGoesWithNames -update\n%s", file, got)
	}
}

// TestNewerVersionIsRefused: by its general record alone, which each start writes, and by each task's.
func TestNewerVersionIsRefused(t *testing.T) {
	if _, err := decode(fmt.Appendf(nil, `{"version":%d,"state":"done"}`, version+1)); err == nil || !strings.Contains(err.Error(), "newer headrace") {
		t.Errorf("a newer record: %v", err)
	}
	j, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Commit(Batch{Meta: &Meta{}}); err != nil {
		t.Fatal(err)
	}
	if c, err := j.Load(); err != nil || c.Meta.Version != version {
		t.Errorf("a general record of version %d, %v", c.Meta.Version, err)
	}
	err = j.db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(metaBucket).Put(metaKey, fmt.Appendf(nil, `{"version":%d}`, version+1))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Load(); err == nil || !strings.Contains(err.Error(), "newer headrace") {
		t.Errorf("a newer general record: %v", err)
	}
}
