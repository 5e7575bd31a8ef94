package checkpoint

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkPageServer measures how fast a dump is received, hashed and stored,
// on /dev/shm if it is there, and with Commit: full, and with every tenth page
// changed since the parent.
func BenchmarkPageServer(b *testing.B) {
	const pages = 256 << 20 / pageSize
	for _, compress := range []bool{false, true} {
		for _, changed := range []string{"full", "tenth"} {
			b.Run(fmt.Sprintf("%s/zstd=%v", changed, compress), func(b *testing.B) {
				dir := b.TempDir()
				if shm, err := os.MkdirTemp("/dev/shm", "headrace-bench-"); err == nil {
					dir = shm
					defer os.RemoveAll(shm)
				}
				s, err := Open(dir+"/store", Options{Compress: compress})
				if err != nil {
					b.Fatal(err)
				}
				mem := make([]byte, pages*pageSize)
				for i := 0; i < len(mem); i += 8 {
					binary.LittleEndian.PutUint64(mem[i:], uint64(i)*0x9e3779b97f4a7c15>>uint(i/pageSize%40))
				}
				benchDump(b, s, mem)
				b.SetBytes(int64(len(mem)))
				for b.Loop() {
					b.StopTimer()
					if changed == "tenth" {
						for p := 0; p < pages; p += 10 {
							mem[p*pageSize]++
						}
						if err := s.Collect("task"); err != nil {
							b.Fatal(err)
						}
					} else if err := s.Remove("task"); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					benchDump(b, s, mem)
				}
			})
		}
	}
}

// benchDump sends a memory in runs of 1 MiB.
func benchDump(b *testing.B, s *Store, mem []byte) {
	w, err := s.Begin("task", BeginOptions{MaxChain: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Abort()
	c := fakeCriu{conn: w.PageSocket()}
	if err := c.request(request{cmd: cmdOpen, dst: 257}, 1); err != nil {
		b.Fatal(err)
	}
	const run = 1 << 20
	for off := 0; off < len(mem); off += run {
		head := encodeRequest(request{cmd: cmdAdd, flags: flagPresent, pages: run / pageSize, vaddr: uint64(off), dst: 257})
		for _, part := range [][]byte{head, mem[off : off+run]} {
			for len(part) > 0 {
				n, err := unix.Write(int(w.PageSocket().Fd()), part)
				if err != nil {
					b.Fatal(err)
				}
				part = part[n:]
			}
		}
	}
	if err := c.request(request{cmd: cmdClose}, 4); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(w.Dir()+"/"+inventoryName, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	if _, err := w.Commit(nil); err != nil {
		b.Fatal(err)
	}
}
