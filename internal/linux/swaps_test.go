package linux

import (
	"slices"
	"testing"
)

func TestSwaps(t *testing.T) {
	root := tree(t, map[string]string{"swaps": "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n" +
		"/swap\\040file                             file\t\t8388604\t\t0\t\t-2\n" +
		"/dev/zram0                              partition\t8388604\t\t1024\t\t100\n" +
		"/short file 1 2\n/large file 99999999999999999999 0 1\n/odd file -1 0 1\n"})
	want := []SwapArea{{"/swap file", "file", 8388604 << 10, 0}, {"/dev/zram0", "partition", 8388604 << 10, 1 << 20}}
	if got, err := ProcFS(root).Swaps(); !slices.Equal(got, want) || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := ProcFS(t.TempDir()).Swaps(); len(got) > 0 || err != nil {
		t.Errorf("a kernel without swap: %+v, %v", got, err)
	}
}

func FuzzParseSwaps(f *testing.F) {
	f.Add("/swap\\040file file 8388604 0 -2\n/x file -1 99999999999999999999 0")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range ParseSwaps(text) {
			if a.Size < 0 || a.Used < 0 || a.Path == "" {
				t.Errorf("swap %+v", a)
			}
		}
	})
}
