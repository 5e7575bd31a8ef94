package criu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The logs below testdata/logs are what CRIU 4.2.1 wrote, on Linux 6.18, for a
// process that held what the file is named after, or for a restore after the
// change that it is named after.
func TestExplainsRealLogs(t *testing.T) {
	want := map[string]string{
		"dump-unix-external": "unix socket to a process outside the task",
		"dump-tcp":           "connections are not to be kept",
		"dump-in-flight":     "not accepted yet",
		"dump-mptcp":         "GODEBUG=multipathtcp=0",
		"dump-vsock":         "kind that CRIU does not know",
		"dump-netlink":       "unread data",
		"dump-fuse":          "/dev/fuse",
		"dump-loop-control":  "the device 10:237",
		"dump-io-uring":      "io_uring",
		"dump-perf":          "(perf_event)",
		"dump-bpf":           "(bpf-map)",
		"dump-userfaultfd":   "(userfaultfd)",
		"dump-inotify-proc":  "inotify",
		"dump-pidfd":         "pidfd of a process outside",
		"dump-foreign-mount": "/usr/bin/python3.11 was opened in another mount namespace",
		"dump-ghost":         "/tmp/crl/gh, deleted while open, which has 3145728 bytes",
		"dump-lock":          "file lock",
		"dump-nested-pidns":  "namespaces of its own",
		"dump-traced":        "debugger or tracer",
		"dump-ended":         "ended while it was being dumped",
		"restore-removed":    "/tmp/crl/gone.txt has been removed",
		"restore-size":       "/tmp/crl/grown.txt has 7 bytes now and had 5",
		"restore-mode":       "permissions of /tmp/crl/mode.txt",
		"restore-port-taken": "port that it listened on is taken",
		"restore-no-cwd":     "/tmp/crl/cwdx has been removed",
		"restore-no-image":   "damaged or incomplete",
	}
	files, err := filepath.Glob("testdata/logs/*.log")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d logs, %d expectations, %v", len(files), len(want), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".log")
		t.Run(name, func(t *testing.T) {
			said := LastErrors(file)
			if said == "" || strings.Contains(said, "RLIMIT") || strings.Contains(said, "FAILED") {
				t.Errorf("LastErrors: %q", said)
			}
			if got := Explain(said); want[name] == "" || !strings.Contains(got, want[name]) {
				t.Errorf("Explain(%q) = %q, want %q in it", said, got, want[name])
			}
		})
	}
}

// These messages are in CRIU's source and are hard to provoke.
func TestExplainsMessages(t *testing.T) {
	cases := map[string]string{
		"Can't write img: No space left on device":                                                            "store is full",
		"Can't dump file 11 of that type [20666] (chr 195:255)":                                               "NVIDIA",
		"Can't dump file 11 of that type [20660] (chr 10:232)":                                                "virtual machine",
		"unix: Can't dump half of stream unix connection. name: x; peer name: y":                              "outside the task",
		"mnt: FS mnt ./mnt dev 0x2f root / unsupported id 120":                                                "damaged",
		"cpu: CPU capabilities do not match run time":                                                         "processor lacks",
		"File usr/bin/python3 has bad build-ID":                                                               "/usr/bin/python3 has been replaced",
		"Pid 17 do not match expected 12":                                                                     "process id that it had is taken",
		"net: Locking network failed using nftables":                                                          "nftables",
		"CRIU needs to have the CAP_SYS_ADMIN or the CAP_CHECKPOINT_RESTORE capability":                       "needs root",
		"Can't get rlimit 0: Operation not permitted":                                                         "CAP_SYS_RESOURCE",
		"System call kcmp is not supported: Function not implemented":                                         "system call kcmp",
		"tty: Unable to open /dev/ptmx with specified index 1 | tty: Can't open master pty 0x16 (index 1)":    "/dev/pts/1 now",
		"tty: ctty inheritance detected sid/pgrp 73 (ctty pid_real 73 pty pid_real 71)":                       "one of its children",
		"inet: Can't dump corked dgram socket 3e7f16":                                                         "half written",
		"unix: Non-empty write queue on an in-flight socket 0x36a2da":                                         "not accepted yet",
		"unix: Found a closed in-flight socket to 0x36a912":                                                   "not accepted yet",
		"pidfd: PIDFD_THREAD flag is currently not supported":                                                 "pidfd of a thread",
		"The packetized mode for pipes is not supported yet":                                                  "pipe of packets",
		"Can't lookup mount=15 for fd=3 path=/secretmem (deleted)":                                            "secret memory",
		"Task 1840918 with SysVIPC shmem map @7f6f79fed000 doesn't live in IPC ns":                            "System V shared memory",
		"Unable to interrupt task: 544522 (Operation not permitted) | Zombies with threads are not supported": "first thread",
		"Can't dump the 1936881 thread with a pending SIGTRAP.":                                               "a debugger is pending",
		"tty: Unpaired slave 3":                                                                               "terminal",
		"Can't dump task 12 running in 32-bit mode":                                                           "32-bit",
		"Can't open file home/u/x.log on restore: Permission denied | Unable to open fd=3":                    "/home/u/x.log may no longer be opened",
		"sockets: Can't get socket filter len: Permission denied":                                             "a filter of BPF",
		"pidfd_open syscall is not supported":                                                                 "system call pidfd_open",
		"Unable to open fd=3 id=0xb | Can't open file etc/motd on restore: No such file or directory":         "/etc/motd has been removed",
	}
	for said, want := range cases {
		if got := Explain(said); !strings.Contains(got, want) {
			t.Errorf("Explain(%q) = %q, want %q in it", said, got, want)
		}
	}
	if got := Explain("a message from the future"); got != "" {
		t.Errorf("an unknown message is explained as %q", got)
	}
}

func TestLacking(t *testing.T) {
	for said, want := range map[string]bool{
		"Can't fork for 1000: Resource temporarily unavailable":                                       true,
		"it cannot (CRIU: Can't fork for 1000: Cannot allocate memory)":                               true,
		"Can't write ghost: No space left on device | Can't open file x":                              true,
		"Unable to create a thread: -11":                                                              true,
		"Unable to create a thread: -17":                                                              false,
		"Can't open file home/No space left on device/x on restore: No such file or directory":        false,
		"inet: Can't bind inet socket (id 3): Address already in use | Can't open: Permission denied": false,
	} {
		if got := Lacking(said); got != want {
			t.Errorf("Lacking(%q) = %v", said, got)
		}
	}
}

func TestPassing(t *testing.T) {
	for said, want := range map[string]bool{
		"In-flight connection (l) for 1f":                                     true,
		"netlink: The socket has data to read":                                true,
		"Control messages in queue, not supported":                            true,
		"Can't dump file 4 of that type [600] (unknown /dev/zero)":            false,
		"unix: Can't dump half of stream unix connection. name: x; peer name": false,
		"No space left on device":                                             false,
		"a message from the future":                                           false,
	} {
		if got := Passing(said); got != want {
			t.Errorf("Passing(%q) = %v", said, got)
		}
	}
}

func TestLastErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var long strings.Builder
	for range 100_000 {
		long.WriteString("(00.1) some line that is no error\n")
	}
	cases := []struct{ name, text, want string }{
		{"empty", "", ""},
		{"only noise", "Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted\n", ""},
		{"in a process", "     3: Error (criu/files.c:1221): Unable to open fd=3 id=0xb\n", "Unable to open fd=3 id=0xb"},
		{"in the parasite", "pie: 3: Error (criu/pie/parasite.c:588): send_fds failed (-22)\n", "send_fds failed (-22)"},
		{"repeated", "Error (a:1): x\nError (a:1): x\nError (a:2): y\n", "x | y"},
		{"many", "Error (a:1): 1\nError (a:1): 2\nError (a:1): 3\nError (a:1): 4\nError (a:1): 5\nError (a:1): 6\nError (a:1): 7\n", "2 | 3 | 4 | 5 | 6 | 7"},
		{"another program's", "Error: Could not process rule: No such file or directory\n", ""},
		{"long", long.String() + "Error (a:1): at the end", "at the end"},
	}
	for _, tc := range cases {
		if got := LastErrors(write("log", tc.text)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := LastErrors(filepath.Join(dir, "absent")); got != "" {
		t.Errorf("absent: %q", got)
	}
}

func FuzzExplain(f *testing.F) {
	files, _ := filepath.Glob("testdata/logs/*.log")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, log string) {
		errs := parseErrors(log)
		if len(errs) > maxErrors {
			t.Errorf("%d errors", len(errs))
		}
		for _, e := range errs {
			if strings.ContainsAny(e, "\n\r") || strings.TrimSpace(e) != e || e == "" {
				t.Errorf("%q is no line", e)
			}
		}
		Explain(strings.Join(errs, " | "))
	})
}

// What is compiled only when it is needed can be compiled, and that takes nothing at the start of a process.
func TestFormsCompile(t *testing.T) {
	for _, e := range explanations {
		if e.message().String() == "" {
			t.Errorf("no message is explained with %q", e.meaning)
		}
	}
}
