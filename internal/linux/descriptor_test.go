package linux

import "testing"

func TestIsDescriptor(t *testing.T) {
	for path, want := range map[string]bool{
		"/dev/stdin": true, "/dev//stdout": true, "/dev/stderr": true, "/dev/fd/63": true, "/proc/self/fd/0": true, "/proc/12/fd/3": true,
		"/proc/12/task/13/fd/3": true, "/proc/thread-self/fd/1": true, "/dev/../proc/self/fd/0": true,
		"/dev/null": false, "/dev/stdin.log": false, "/dev/fd": false, "/proc/self/fd": false, "/proc/fd/fd": false, "/home/proc/1/fd/2": false,
		"/proc/1/cmdline": false, "/": false, "": false,
	} {
		if got := IsDescriptor(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
