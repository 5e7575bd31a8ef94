package disk

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one line of /proc/PID/mountinfo.
type mount struct {
	id             int // as in statx(2)
	dev            ID
	root, point    string
	fsType, source string
}

// parseMounts reads the text of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
// Lines that make no sense are left out.
func parseMounts(text string) []mount {
	var all []mount
	for line := range strings.Lines(text) {
		if m, ok := parseMount(line); ok {
			all = append(all, m)
		}
	}
	return all
}

func parseMount(line string) (mount, bool) {
	f := strings.Split(strings.TrimSuffix(line, "\n"), " ") // other blanks are written as they are
	// id parent major:minor root point options [optional ...] - type source super
	dash := 6
	for dash < len(f) && f[dash] != "-" {
		dash++
	}
	if len(f) < dash+3 {
		return mount{}, false
	}
	id, err := strconv.Atoi(f[0])
	dev, good := parseNumber(f[2])
	if err != nil || id < 0 || !good {
		return mount{}, false
	}
	return mount{id: id, dev: dev, root: unescape(f[3]), point: unescape(f[4]),
		fsType: unescape(f[dash+1]), source: unescape(f[dash+2])}, true
}

// parseNumber reads a device's number as the kernel writes it: "254:0".
func parseNumber(s string) (ID, bool) {
	before, after, ok := strings.Cut(s, ":")
	major, err1 := strconv.ParseUint(before, 10, 32)
	minor, err2 := strconv.ParseUint(after, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, false
	}
	return ID(unix.Mkdev(uint32(major), uint32(minor))), true
}

// unescape puts back what the kernel writes as a backslash and three octal
// digits: blanks, tabs, newlines, backslashes and number signs.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOf finds the mount with the given id, otherwise the last one of the
// device, a whole file system rather than a part of it. exact tells which.
func mountOf(all []mount, id int, dev ID) (m mount, exact, ok bool) {
	for _, c := range all {
		switch {
		case id > 0 && c.id == id:
			return c, true, true
		case c.dev == dev && (!ok || c.root == "/" || m.root != "/"):
			m, ok = c, true
		}
	}
	return m, false, ok
}
