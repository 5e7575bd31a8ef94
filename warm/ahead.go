package warm

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"headrace/pagecache"
)

const (
	// aheadBytes is how far the kernel is to be ahead of Cache.Pin, which reads
	// pieces of 1 MiB: then it reads as fast as with its own read-ahead.
	aheadBytes = 3 << 20
	// aheadStep is how much is asked for at once. The kernel takes only so much of
	// one call as the device takes in one request.
	aheadStep = 256 << 10
)

// ahead has the kernel read a block a little ahead of Cache.Pin, and nothing
// behind it. The kernel's own read-ahead does not know where the block ends. What
// it brings into memory of the next one (up to 8 MiB on some machines) would be
// taken for somebody else's when that is to be locked, and would not be locked.
//
// All of it is advice: where it is not taken, reading is slower or goes a little
// too far.
type ahead struct {
	conn              syscall.RawConn
	done, asked, last int64
}

// readAhead begins with a block of a file that nobody else uses the descriptor of.
func readAhead(f *os.File, part pagecache.Range) *ahead {
	conn, err := f.SyscallConn()
	if err != nil {
		return &ahead{}
	}
	conn.Control(func(fd uintptr) { unix.Fadvise(int(fd), 0, 0, unix.FADV_RANDOM) })
	return &ahead{conn: conn, done: part.Off, asked: part.Off, last: part.Off + part.Len}
}

// progress is told what Pin has read. Nothing is asked for before its first piece:
// Pin looks first what is in memory without it.
func (a *ahead) progress(n int64) {
	if a.conn == nil {
		return
	}
	a.done += n
	a.asked = max(a.asked, a.done)
	upto := min(a.done+aheadBytes, a.last)
	a.conn.Control(func(fd uintptr) {
		for ; a.asked < upto; a.asked = min(a.asked+aheadStep, upto) {
			unix.Fadvise(int(fd), a.asked, upto-a.asked, unix.FADV_WILLNEED)
		}
	})
}
