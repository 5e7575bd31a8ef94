package checkpoint

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"headrace/internal/linux"
)

// injected is what CRIU writes over the first instructions of a process, for as long as it has the process make a system call: the call, in
// a program of 64 and of 32 bits, and a breakpoint (CRIU's code_syscall and code_int_80, compel/arch/*/src/lib/infect.c).
var injected = map[string][]string{
	"amd64": {"\x0f\x05\xcc\xcc\xcc\xcc\xcc\xcc", "\xcd\x80\xcc\xcc\xcc\xcc\xcc\xcc"},
	"arm64": {"\x01\x00\x00\xd4\x00\x00\x20\xd4"},
}[runtime.GOARCH]

// injectedLen is the length of each.
const injectedLen = 8

// injectedPatience is how long a page may begin with what CRIU injects. Until the process has made the call, CRIU waits for it, which
// stands in the queue for a processor like others.
const injectedPatience = 10 * time.Second

// readProcess fills b with memory of a process.
func readProcess(pid int, at uint64, b []byte) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(b, int64(at))
	return err
}

// removeInjected puts back what CRIU has written over in adjacent pages of the process that is being dumped. CRIU hands pages on without a
// copy, and has the process make one more call before they are read here: a page may hold that call then, and a task that
// was restored from it would come to the breakpoint. CRIU puts back what was there without waiting for us. The kernel reads and writes
// these bytes as one word.
func (s *pageServer) removeInjected(pages []byte, at uint64) error {
	for ; len(pages) > 0; pages, at = pages[pageSize:], at+pageSize {
		first := pages[:injectedLen]
		if s.process == 0 || !slices.Contains(injected, string(first)) {
			continue
		}
		deadline := linux.Clock() + injectedPatience
		for pause := 20 * time.Microsecond; slices.Contains(injected, string(first)); pause = min(2*pause, 5*time.Millisecond) {
			if linux.Clock() >= deadline {
				return fmt.Errorf("the page at %#x of process %d begins with code of CRIU, which is not taken away within %v", at, s.process, injectedPatience)
			}
			time.Sleep(pause)
			if err := s.memory(s.process, at, first); err != nil {
				return fmt.Errorf("read again the page at %#x of process %d, which begins with code of CRIU: %w", at, s.process, err)
			}
		}
	}
	return nil
}
