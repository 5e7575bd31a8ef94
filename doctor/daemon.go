package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"headrace/report"
	"headrace/wire"
)

// askTime is how long the daemon may take to tell about itself, and a file system what is on it.
const askTime = 5 * time.Second

// daemon asks the daemon that runs, and judges what it says.
func (o *Options) daemon(ctx context.Context) []Finding {
	var info *wire.NodeInfo
	var err error
	if o.Ask != nil {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		info, err = o.Ask(ctx)
	}
	if errors.As(err, new(*wire.NoDaemonError)) {
		info, err = nil, nil
	}
	return []Finding{hangsFinding(info, err, time.Now()), recordsFinding(info, err)}
}

const noDaemon = "no daemon runs that would know"

func hangsFinding(info *wire.NodeInfo, err error, now time.Time) Finding {
	f := Finding{Name: "answers of disks", Status: OK, What: "all disks and file servers that the daemon reads from answer",
		Why: "Whoever reads from one that does not waits until it does: nothing ends such a read."}
	switch {
	case err != nil:
		f.Status, f.What = Unknown, fmt.Sprintf("the daemon does not tell: %v", err)
	case info == nil:
		f.What = noDaemon
	case len(info.Hangs) > 0:
		var what, how []string
		for _, h := range info.Hangs {
			what, how = append(what, hang(h, now)), append(how, placeOf(h)+": "+hangAdvice(h))
		}
		f.Status, f.What, f.How = Warning, strings.Join(what, "; "), strings.Join(how, "\n")
	}
	return f
}

func recordsFinding(info *wire.NodeInfo, err error) Finding {
	f := Finding{Name: "records", Status: OK, What: "the daemon knows all tasks that ran when it started",
		Why: "No command of headrace reaches a task that is not in the daemon's records, and nobody counts what it uses."}
	switch {
	case err != nil:
		f.Status, f.What = Unknown, fmt.Sprintf("the daemon does not tell: %v", err)
	case info == nil:
		f.What = noDaemon
	case len(info.LeftAlone) > 0:
		var all []string
		for _, a := range info.LeftAlone {
			all = append(all, fmt.Sprintf("%s (%s)", a.Id, a.Why))
		}
		f.Status, f.What = Warning, "left alone when the daemon started: "+strings.Join(all, ", ")
		f.How = "They may have ended since. How to end one: 'Not in the records' in docs/troubleshooting.md."
	}
	return f
}

// Hang says in a line which disk or file server does not answer, since when, what waits, and what to do.
func Hang(h *wire.DiskHang, now time.Time) string { return hang(h, now) + "; " + hangAdvice(h) }

func hang(h *wire.DiskHang, now time.Time) string {
	since := time.UnixMilli(h.SinceMs)
	at := since.Format(time.TimeOnly)
	if now.Sub(since) >= 24*time.Hour {
		at = since.Format("2006-01-02 15:04")
	}
	text := fmt.Sprintf("%s: no answer for %s (since %s), %s", placeOf(h), report.Duration(max(0, now.Sub(since))), at, counted(h.Hanging, "hangs", "hang", h.WhoHangs))
	switch {
	case !h.Silent:
		return text + ", others go on"
	case h.Waiting > 0:
		return text + ", " + counted(h.Waiting, "waits", "wait", h.WhoWaits)
	}
	return text
}

// placeOf names a disk and where it is.
func placeOf(h *wire.DiskHang) string {
	if h.Mount == "" {
		return h.Disk
	}
	return fmt.Sprintf("%s (%s)", h.Disk, h.Mount)
}

func counted(n uint32, one, many string, names []string) string {
	if n == 1 {
		many = one
	}
	text := fmt.Sprintf("%d %s", n, many)
	if len(names) == 0 {
		return text
	}
	if int(n) > len(names) {
		names = append(names[:len(names):len(names)], "...")
	}
	return fmt.Sprintf("%s (%s)", text, strings.Join(names, ", "))
}

// hangAdvice says what to do. What has no name but a number is a file server, local or not.
func hangAdvice(h *wire.DiskHang) string {
	if strings.Contains(h.Disk, ":") && h.Mount != "" {
		return fmt.Sprintf("when its server answers all goes on by itself, and 'umount -f %s' has it fail instead", h.Mount)
	}
	return "see dmesg: when it answers all goes on by itself"
}
