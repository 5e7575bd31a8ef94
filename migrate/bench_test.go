package migrate

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"headrace/blob"
)

// BenchmarkDir moves a gigabyte of data that do not compress, into a directory and
// out of it again.
func BenchmarkDir(b *testing.B) {
	for name, o := range map[string]Options{"plain": {}, "compressed": {Compress: true}} {
		b.Run(name, func(b *testing.B) { benchmarkPlace(b, newDir(b), o, 1<<30) })
	}
}

// BenchmarkHDFS moves less, through a name node and a data node on this machine.
func BenchmarkHDFS(b *testing.B) { benchmarkPlace(b, newHDFS(b), Options{}, 256<<20) }

func benchmarkPlace(b *testing.B, p blob.Place, o Options, size int64) {
	name := filepath.Join(b.TempDir(), "contents")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	piece := make([]byte, 16<<20)
	random := rand.NewChaCha8([32]byte{1})
	for range size / int64(len(piece)) {
		random.Read(piece)
		if _, err := f.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	a := newArchive(b, p, o)
	put := func(ctx context.Context) {
		_, err := a.Put(ctx, NewID(), describe("k"), func(w *Writer) error {
			return w.add(File{In: InImage, Path: "000001/x", Type: Regular, Size: size}, f)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	fetch := func(ctx context.Context, to *os.File) {
		c, err := a.Claim(ctx, want("k"))
		if err != nil {
			b.Fatal(err)
		}
		if err := c.each(ctx, func(_ File, data *Contents) error { return data.WriteToFile(to) }); err != nil {
			b.Fatal(err)
		}
		if err := to.Sync(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := c.Remove(ctx); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.Run("put", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			put(b.Context())
			b.StopTimer()
			c, err := a.Claim(b.Context(), want("k"))
			if err != nil {
				b.Fatal(err)
			}
			if err := c.Remove(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("fetch", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			b.StopTimer()
			put(b.Context())
			to, err := os.Create(filepath.Join(b.TempDir(), "fetched"))
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			fetch(b.Context(), to)
			b.StopTimer()
			to.Close()
			os.Remove(to.Name())
			b.StartTimer()
		}
	})
}
