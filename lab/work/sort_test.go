package work

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"
)

// What a mapper sorts is what one finds who sorts all of it in memory, however it is
// cut, and nothing of its files is left.
func TestMapperSorts(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 1))
	for _, size := range []int{0, SortedBytes, 10 * SortedBytes, 500 * SortedBytes} {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		text := make([]byte, size)
		for i := range text {
			text[i] = 'a' + byte(random.IntN(2)) // many begin alike
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := SumSorted(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range []int{7 * SortedBytes, 1 << 20} {
			for _, readers := range []string{"1", "4"} {
				got := lastLine(t, "map", "--file", path, "--sort", dir, "--block", fmt.Sprint(block), "--readers", readers)
				if want := Answer("map", sum); got != want {
					t.Errorf("%d bytes in blocks of %d, %s readers: %q, want %q", size, block, readers, got, want)
				}
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("left are %v, %v", left, err)
		}
	}
}

// The file that is written has what the sum is of.
func TestMergedFile(t *testing.T) {
	s, err := newSorter(t.TempDir(), 200*SortedBytes, 100*SortedBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var want [][]byte
	for i := range int64(2) {
		var block []byte
		for n := range 100 {
			record := bytes.Repeat([]byte{byte((n*37 + int(i)) % 101)}, SortedBytes)
			block, want = append(block, record...), append(want, record)
		}
		if err := s.add(i, block); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := s.merge()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, bytes.Compare)
	got, err := os.ReadFile(filepath.Join(s.dir, "sorted"))
	if err != nil || !bytes.Equal(got, bytes.Join(want, nil)) || xxh3.Hash(got) != sum {
		t.Errorf("%d bytes with the sum %x were written, %v", len(got), sum, err)
	}
}

func TestSortWantsWholeRecords(t *testing.T) {
	for _, x := range [][2]int64{{1280, 100}, {1281, 128}} {
		if _, err := newSorter(t.TempDir(), x[0], x[1]); err == nil {
			t.Errorf("%d bytes in blocks of %d: records were cut in two", x[0], x[1])
		}
	}
}
