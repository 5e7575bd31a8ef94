package criu

import (
	"regexp"
	"sync"
)

// form compiles an expression when it is first needed. Every task has a process of its own that knows them all: it would
// start with half a megabyte and a millisecond more, for what few tasks ever ask.
func form(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// An explanation is what a message of CRIU means for whoever runs the task. The
// text may refer to groups of the pattern as $1.
type explanation struct {
	message func() *regexp.Regexp
	meaning string
	passes  bool
}

// Explain says in plain words what the messages of a failed dump or restore,
// as LastErrors gives them, mean, or returns nothing for messages it does not
// know. The words complete the sentence "The task cannot be checkpointed (or
// restored) because ...".
func Explain(said string) string {
	if e, m := find(said); m != nil {
		return string(e.message().ExpandString(nil, e.meaning, said, m))
	}
	return ""
}

// Passing reports whether the messages of a failed dump mean something that
// passes by itself while the task runs.
func Passing(said string) bool {
	e, m := find(said)
	return m != nil && e.passes
}

// lacking is what messages end with when there was too little of something.
var lacking = form(`(?:: (?:No space left on device|Disk quota exceeded|Cannot allocate memory|Resource temporarily unavailable|Too many open files(?: in system)?)|Unable to create a thread: -1[12])(?: \||\)|$)`)

// Lacking reports whether the messages of a failed restore say that there was too little of
// something on the machine: memory, processes, descriptors, or room on a disk.
func Lacking(said string) bool { return lacking().MatchString(said) }

func find(said string) (explanation, []int) {
	for _, e := range explanations {
		if m := e.message().FindStringSubmatchIndex(said); m != nil {
			return e, m
		}
	}
	return explanation{}, nil
}

func known(pattern, meaning string) explanation {
	return explanation{message: form(pattern), meaning: meaning}
}

// passing reports what is known to pass while the task runs.
func passing(pattern, meaning string) explanation {
	e := known(pattern, meaning)
	e.passes = true
	return e
}

// explanations are tried in turn: a cause stands before what it leads to, and
// the particular before the general.
var explanations = []explanation{
	// Room.
	known(`No space left on device`,
		"the store is full; make room, or use another store"),
	known(`Disk quota exceeded`,
		"the disk quota is used up; make room, or use another store"),
	known(`Cannot allocate memory|Can't allocate \d+ bytes`,
		"there is not enough free memory for it"),

	// Sockets.
	known(`External socket|half of stream unix connection|name-less external socket|unix: Unix socket \d+ (with unreachable|without) peer`,
		"it holds a unix socket to a process outside the task (a desktop session, a database, a log or container daemon); close that connection, or start the other process inside the task"),
	known(`Unsupported proto 262`,
		"it holds a multipath TCP socket; a Go program uses plain TCP with GODEBUG=multipathtcp=0 in its environment"),
	passing(`In-flight connection`,
		"a connection has reached its listening socket and is not accepted yet; try again in a moment"),
	known(`Connected TCP socket`,
		"it holds an open TCP connection, and connections are not to be kept"),
	passing(`half-closed sockets`,
		"it holds a TCP connection that is closed in one direction; try again when it is closed"),
	known(`Locking (network|connection) failed`,
		"the packets of its connections cannot be held back: the kernel lacks nftables (CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET), or this is not allowed here"),
	known(`Can't bind inet socket.*: Address already in use`,
		"the port that it listened on is taken by another program; end that one and try again"),
	known(`Can't (bind|connect) inet socket.*: Cannot assign requested address`,
		"this machine no longer has the network address that its connection used"),
	known(`Can't connect inet socket back`,
		"its TCP connection cannot be set up again"),
	known(`unix: Can't bind .*: Address already in use`,
		"a file stands where its unix socket was; remove it and try again"),
	passing(`netlink: The socket has data to read`,
		"a netlink socket of it has unread data; try again in a moment"),
	passing(`Can't dump corked dgram socket`,
		"a datagram of it is half written (MSG_MORE, UDP_CORK); try again in a moment"),
	passing(`(Non-empty write queue on an|Found a closed) in-flight socket`,
		"a connection with data has reached its unix socket and is not accepted yet; try again in a moment"),
	known(`Unknown socket (family|collected)|Sockets \(family|Unsupported socket (family|type)|Unsupported proto`,
		"it holds a socket of a kind that CRIU does not know (vsock, Bluetooth, kernel crypto, SCTP)"),
	known(`Can't get socket filter`,
		"a socket of it has a filter of BPF (SO_ATTACH_BPF), which nobody else can read"),
	passing(`Control messages in queue`,
		"a message with file descriptors waits in one of its unix sockets; try again in a moment"),

	// Files that are no plain files.
	known(`send_fds failed \(-22\)|io_uring`,
		"it uses io_uring, which CRIU cannot save; many programs have a setting to do without"),
	known(`of that type \[\w+\] \(chr 195:`,
		"it uses an NVIDIA GPU, whose state only the driver knows"),
	known(`of that type \[\w+\] \(chr 10:229`,
		"it serves a FUSE file system (it has /dev/fuse open)"),
	known(`of that type \[\w+\] \(chr 10:232`,
		"it runs a virtual machine (it has /dev/kvm open)"),
	known(`of that type \[\w+\] \((?:chr|blk) (\d+:\d+)`,
		"it has the device $1 open, whose state only its driver knows"),
	known(`of that type \[\w+\] \(\w+ anon_inode:\[?([\w-]+)`,
		"it holds a kernel object that CRIU cannot save ($1)"),
	known(`Can't dump file \d+ of that type`,
		"it has a file open of a kind that CRIU cannot save"),
	known(`is a fuse mount but not external`,
		"it has mounted a FUSE file system"),
	known(`fsnotify: .*(handle|watch)|Can't (dump|make) inotify|Failed to read inotify`,
		"it watches files for changes (inotify) on a file system that cannot find them again (/proc, overlay, FUSE, network)"),
	known(`PIDFD_THREAD flag`,
		"it holds a pidfd of a thread"),
	known(`packetized mode for pipes`,
		"it has a pipe of packets (O_DIRECT)"),
	known(`path=/secretmem`,
		"it has secret memory (memfd_secret)"),
	known(`pidfd pid (-?\d+) is not a part of process tree`,
		"it holds a pidfd of a process outside the task"),
	known(`Open files on overmounted`,
		"something was mounted over a file that it has open"),
	known(`Can't lookup mount=-?\d+ for fd=-?\d+ path=([^|]*[^| ])`,
		"$1 was opened in another mount namespace, or on a file system that has been unmounted since; this is so for what a container or a sandbox inside the task has opened"),
	known(`Can't dump ghost file (.*) of (\d+) size`,
		"it holds $1, deleted while open, which has $2 bytes: more than is kept in a checkpoint"),
	known(`file locks are hold`,
		"it holds a file lock together with a process outside the task"),
	known(`tty: Unable to open \S+ with specified index (\d+)`,
		"another program has the terminal /dev/pts/$1 now, which is what its own was called; end that one and try again"),
	known(`ctty inheritance detected`,
		"the terminal that it has made is the controlling terminal of one of its children (script, tmux, expect, ssh -t)"),
	known(`tty: .*(Unpaired|Found slave peer index|without correct)|tty: Can't open`,
		"it is attached to a terminal outside the task"),

	// Processes.
	known(`with SysVIPC shmem map`,
		"it has a System V shared memory segment attached"),
	known(`Zombies with threads`,
		"the first thread of one of its processes has ended and others go on"),
	passing(`with a pending SIGTRAP`,
		"a trap of a debugger is pending in one of its threads; try again in a moment"),
	known(`Unable to interrupt task: \d+ \(Operation not permitted\)`,
		"a debugger or tracer (gdb, strace, a crash reporter) is attached to one of its processes, or tracing is not allowed here"),
	passing(`Unable to interrupt task: \d+ \(No such process\)|Unable to detach from \d+: No such process`,
		"one of its processes ended while it was being dumped; try again"),
	known(`nested (\w+) namespace|Can't make (pid|user|time)ns id`,
		"it has made namespaces of its own (a container, a sandbox, a browser)"),
	known(`running in 32-bit mode`,
		"it is a 32-bit program"),
	known(`with LDT descriptors`,
		"it uses a local descriptor table (old 16- or 32-bit code, Wine)"),
	known(`seccomp filters not supported|Kernel doesn't support PTRACE_O_SUSPEND_SECCOMP`,
		"it has a seccomp filter, and this kernel cannot lift it for a dump"),
	known(`Individually stopped threads`,
		"some of its threads are stopped and others are not"),
	known(`(UFFD|userfaultfd) is not supported`,
		"this kernel has no userfaultfd"),

	// Restoring.
	known(`Pid \d+ do not match expected|Can't fork for \d+: File exists`,
		"a process id that it had is taken"),
	known(`(?:File|file) (\S+) has bad size (\d+) \(expect (\d+)\)`,
		"/$1 has $2 bytes now and had $3 when the checkpoint was made"),
	known(`File (\S+) has bad mode`,
		"the permissions of /$1 have changed since the checkpoint was made"),
	known(`File (\S+) has bad build-ID`,
		"the program or library /$1 has been replaced since the checkpoint was made"),
	known(`Can't open file (\S+)(?: on restore)?: No such file or directory`,
		"/$1 has been removed since the checkpoint was made"),
	known(`Can't open file (\S+)(?: on restore)?: Permission denied`,
		"/$1 may no longer be opened"),
	known(`cpu: .*(do not match|is not supported on host|mismatch)`,
		"this machine's processor lacks instructions that the program was using"),
	known(`Unexpected EOF|Corrupted|Can't read image|No such image|unsupported id|Not supported images version|Magic doesn't match`,
		"the checkpoint is damaged or incomplete"),

	// The machine.
	known(`Can't get rlimit \d+: Operation not permitted`,
		"the daemon lacks CAP_SYS_RESOURCE, without which processes of other users than root cannot be checkpointed; in a container, grant it this capability"),
	known(`CAP_SYS_ADMIN|CAP_CHECKPOINT_RESTORE`,
		"CRIU needs root"),
	known(`vdso`,
		"this CRIU does not know the vDSO of this kernel; run scripts/get-criu to get a newer one"),
	known(`ns_last_pid`,
		"process ids cannot be chosen here (/proc/sys/kernel/ns_last_pid is not writable)"),
	known(`System call (\w+) is not supported|(\w+) syscall is not supported`,
		"this kernel lacks the system call $1$2"),
	known(`Operation not permitted`,
		"something that CRIU needs is not allowed here (a container without CAP_SYS_ADMIN, a security module)"),
}
