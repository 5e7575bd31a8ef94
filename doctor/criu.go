package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headrace/internal/criu"
	"headrace/internal/linux"
)

func criuFinding(ctx context.Context, path string, noSmoke bool) Finding {
	f := Finding{Name: "criu", Status: OK,
		Why: "CRIU writes a task to storage and brings it back; without it tasks are suspended or killed to make room, and nothing survives a reboot."}
	find := criu.Find
	if path != "" {
		find = func() (criu.Criu, error) { return criu.At(ctx, path) }
	}
	c, err := find()
	if err != nil {
		f.Status, f.What = Missing, err.Error()
		f.How = "scripts/get-criu (as root) puts CRIU 4.2 or newer into " + criu.SystemPrefix + "; another one is named by --criu or HEADRACE_CRIU."
		return f
	}
	f.What = fmt.Sprintf("%v at %s", c.Version, c.Path)
	if noSmoke {
		f.What += "; not tried"
		return f
	}
	begun := time.Now()
	err = c.Smoke(ctx)
	switch {
	case err == nil:
		f.What += fmt.Sprintf("; a process with a listening socket was dumped and restored in %d ms", time.Since(begun).Milliseconds())
	case errors.Is(err, criu.ErrNeedsRoot):
		f.Status = Warning
		f.What += "; cannot be used by an ordinary user"
		f.How = "Run the daemon as root."
	case ctx.Err() != nil:
		f.Status = Unknown
		f.What += "; not tried: " + ctx.Err().Error()
	default:
		f.Status = Missing
		f.What += "; does not work here: " + err.Error()
		f.How = "In a container: it needs CAP_SYS_ADMIN, CAP_SYS_PTRACE and a writable /proc/sys (docker run --privileged). On a new kernel: scripts/get-criu for a newer CRIU."
	}
	return f
}

// asynchronousIO returns a finding; err is why the kernel does not tell which requests are in flight.
func asynchronousIO(m machine, err error) Finding {
	f := Finding{Name: "asynchronous I/O", Status: OK, What: "requests in flight are counted (bpf)",
		Why: "A checkpoint would lose requests of the kernel's asynchronous I/O (libaio; databases use it). Where it is not known whether any are in flight, tasks that use it are suspended or killed to make room, and not checkpointed."}
	if err == nil {
		return f
	}
	f.Status, f.What = Unknown, err.Error()
	if missing := (*linux.MissingError)(nil); errors.As(err, &missing) {
		f.Status, f.How = Warning, m.bpfHow()
		release, _ := m.read("proc/sys/kernel/osrelease")
		if v, ok := parseRelease(release); ok && !v.atLeast(5, 19) {
			f.How = "Install a newer kernel: 5.19 at least."
		}
	}
	return f
}
