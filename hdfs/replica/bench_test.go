package replica

import "testing"

// BenchmarkFind: on the last of twelve volumes, with everything in memory.
func BenchmarkFind(b *testing.B) {
	var dirs []dataDir
	for range 12 {
		dirs = append(dirs, newDataDir(b, layout32))
	}
	dirs[11].add(subdir(layout32))
	v := volumes(b, dirs...)
	for b.Loop() {
		r, err := v.Find(b.Context(), testBlock)
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// BenchmarkCheck: of a replica that nothing has happened to for a while.
func BenchmarkCheck(b *testing.B) {
	d := newDataDir(b, layout32)
	d.add(subdir(layout32))
	v := volumes(b, d)
	r, err := v.Find(b.Context(), testBlock)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	r.was.at = r.was.at.Add(2 * settle)
	for b.Loop() {
		if err := r.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
