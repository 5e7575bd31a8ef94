// victim holds memory for the tests with CRIU. It is told what to do by signals
// and answers with files in its working directory, named result-1, result-2 ...
//
//	SIGUSR1  change every tenth page
//	SIGUSR2  nothing
//
// After each, and once at the start, it writes the hash of its memory.
package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

const pageSize = 4096

func main() {
	pages, err := strconv.Atoi(os.Args[1])
	check(err)
	private, err := syscall.Mmap(-1, 0, pages*pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	check(err)
	shared, err := syscall.Mmap(-1, 0, pages/8*pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_SHARED)
	check(err)
	for _, m := range [][]byte{private, shared} {
		for p := 0; p < len(m)/pageSize; p++ {
			if p%7 != 0 { // every seventh page is zero
				fill(m[p*pageSize:], uint64(p))
			} else {
				m[p*pageSize] = 0
			}
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	for n := 1; ; n++ {
		answer(n, private, shared)
		if <-signals != syscall.SIGUSR1 {
			continue
		}
		for _, m := range [][]byte{private, shared} {
			for p := n % 10; p < len(m)/pageSize; p += 10 {
				fill(m[p*pageSize:], uint64(p)+uint64(n)<<32)
			}
		}
	}
}

func fill(page []byte, seed uint64) {
	for i := 0; i < pageSize; i += 8 {
		seed = seed*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(page[i:], seed)
	}
}

func answer(n int, memories ...[]byte) {
	h := fnv.New64a()
	for _, m := range memories {
		h.Write(m)
	}
	name := fmt.Sprintf("result-%d", n)
	check(os.WriteFile(name+".tmp", fmt.Appendf(nil, "%016x", h.Sum64()), 0o600))
	check(os.Rename(name+".tmp", name))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
