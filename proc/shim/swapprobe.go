package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// runSwapProbe measures swap with memory of its own: how fast MADV_PAGEOUT
// writes it, and how fast it comes back after MADV_WILLNEED.
func runSwapProbe(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("want a number of bytes")
	}
	size, err := strconv.Atoi(args[0])
	if err != nil || size < 1<<20 || size > 1<<30 {
		return fmt.Errorf("%q: want 1 MiB to 1 GiB in bytes", args[0])
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	fill(mem)
	var s proc.SwapSpeed
	begin := linux.Clock()
	if err := unix.Madvise(mem, unix.MADV_PAGEOUT); err != nil {
		return fmt.Errorf("MADV_PAGEOUT (Linux 5.4 or later): %w", err)
	}
	took := linux.Clock() - begin
	st, err := procs.Status(os.Getpid())
	if err != nil {
		return err
	}
	if st.Swap < int64(size)/2 {
		return fmt.Errorf("only %d of %d bytes went to swap", st.Swap, size)
	}
	s.Out = rate(st.Swap, took)
	begin = linux.Clock()
	if err := unix.Madvise(mem, unix.MADV_WILLNEED); err != nil {
		return os.NewSyscallError("MADV_WILLNEED", err)
	}
	sum := byte(0)
	for i := 0; i < size; i += os.Getpagesize() {
		sum ^= mem[i]
	}
	s.In = rate(st.Swap, linux.Clock()-begin)
	s.Check = sum
	return json.NewEncoder(out).Encode(s)
}

// fill writes what does not compress, should swap be compressed.
func fill(mem []byte) {
	r := rand.NewChaCha8([32]byte{})
	r.Read(mem)
}

func rate(bytes int64, took time.Duration) float64 {
	return float64(bytes) / max(took.Seconds(), 1e-6)
}
