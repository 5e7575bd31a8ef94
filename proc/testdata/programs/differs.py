# differs.py DIR sets what a process can set of itself, prints "ready", and when
# DIR/go exists prints "kept", "lost" or "absent" (not possible here) for each.
import ctypes, fcntl, os, resource, signal, socket, struct, sys, tempfile, time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
x86 = os.uname().machine == "x86_64"
IOPRIO_SET, IOPRIO_GET, KEYCTL, MLOCK2 = (251, 252, 250, 325) if x86 else (30, 31, 219, 284)
SET_MEMPOLICY, GET_MEMPOLICY = (238, 239) if x86 else (237, 236)
things = {}  # name: how to look at it; what it returns must stay the same


def thing(name, set, get):
    """set makes it other than it was; what cannot be set is absent."""
    try:
        before = get()
        set()
        after = get()
    except OSError:
        before = after = None
    things[name] = (None, None) if after == before else (get, after)


def check(n):
    if n < 0:
        raise OSError(ctypes.get_errno(), "system call")
    return n


def call(*a):
    return check(libc.syscall(*[ctypes.c_void_p(x) if isinstance(x, int) else x for x in a]))


def prctl(op, *a):
    return check(libc.prctl(op, *[ctypes.c_ulong(x) for x in (*a, 0, 0, 0, 0)[:4]]))


def pointed(op):
    i = ctypes.c_int()
    prctl(op, ctypes.addressof(i))
    return i.value


def own(name):
    with open("/proc/self/" + name) as f:
        return f.read().strip()


def write(name, value):
    with open("/proc/self/" + name, "w") as f:
        f.write(value)


def policy():
    mode = ctypes.c_int()
    call(GET_MEMPOLICY, ctypes.addressof(mode), 0, 0, 0, 0)
    return mode.value


def readable(s):
    try:
        return s.recv(10, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""


def vmflag(flag):
    return sum(flag in l.split() for l in open("/proc/self/smaps") if l.startswith("VmFlags"))


def noted():
    n = len(notes)
    os.close(os.open("new%d" % time.time_ns(), os.O_CREAT, dir_fd=directory))
    end = time.monotonic() + 1
    while len(notes) == n and time.monotonic() < end:
        time.sleep(0.01)
    return len(notes) > n


def landlock():
    rules = call(444, struct.pack("QQ", 1 << 1, 0), 16, 0)
    prctl(38, 1)
    call(446, rules, 0)
    os.close(rules)


def writable():
    try:
        with open(sys.argv[1] + "/file", "a"):
            return True
    except PermissionError:
        return False


# What is kept.
thing("CPU affinity", lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}), lambda: os.sched_getaffinity(0))
thing("I/O priority", lambda: call(IOPRIO_SET, 1, 0, 2 << 13 | 6), lambda: call(IOPRIO_GET, 1, 0))
thing("timer slack", lambda: prctl(29, 123456), lambda: prctl(30))
thing("core dump filter", lambda: write("coredump_filter", "0x11"), lambda: own("coredump_filter"))
thing("nice value", lambda: os.setpriority(os.PRIO_PROCESS, 0, 7), lambda: os.getpriority(os.PRIO_PROCESS, 0))
thing("OOM score", lambda: write("oom_score_adj", "345"), lambda: own("oom_score_adj"))
thing("umask", lambda: os.umask(0o037), lambda: own("status").split("Umask:")[1].split()[0])
thing("resource limits", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (500, 600)), lambda: resource.getrlimit(resource.RLIMIT_NOFILE))
thing("signal of the parent's death", lambda: prctl(1, signal.SIGUSR1), lambda: pointed(2))
thing("subreaper", lambda: prctl(36, 1), lambda: pointed(37))
thing("no huge pages", lambda: prctl(41, 1), lambda: prctl(42))
thing("name", lambda: write("comm", "renamed"), lambda: own("comm"))
thing("pending signal", lambda: (signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]), os.kill(os.getpid(), signal.SIGUSR2)), signal.sigpending)
pipe = os.pipe()
thing("pipe size", lambda: fcntl.fcntl(pipe[1], 1031, 1 << 20), lambda: fcntl.fcntl(pipe[1], 1032))
thing("interval timer", lambda: signal.setitimer(signal.ITIMER_REAL, 1000, 500), lambda: signal.getitimer(signal.ITIMER_REAL)[1])
sock = socket.socket()
thing("TCP keep-alive", lambda: (sock.setsockopt(1, 9, 1), sock.setsockopt(6, 4, 33)), lambda: sock.getsockopt(6, 4))

# What differs.
thing("personality", lambda: check(libc.personality(0x40000)), lambda: libc.personality(0xFFFFFFFF))
node = ctypes.c_ulong(1)
thing("memory policy", lambda: call(SET_MEMPOLICY, 1, ctypes.addressof(node), 64), lambda: policy())
thing("memory merging", lambda: prctl(67, 1), lambda: prctl(68))
thing("machine check policy", lambda: prctl(33, 1, 1), lambda: prctl(34))
thing("write or execute", lambda: prctl(65, 1), lambda: prctl(66))
thing("session keyring", lambda: (call(KEYCTL, 1, b"headrace"), call(248 if x86 else 217, b"user", b"headrace", b"x", 1, -3)), lambda: libc.syscall(KEYCTL, 10, ctypes.c_long(-3), b"user", b"headrace", 0) > 0)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
thing("unread datagram", lambda: udp.sendto(b"x", udp.getsockname()), lambda: readable(udp))
locked = libc.mmap(None, 65536, 3, 0x22, -1, 0)
thing("memory locked when touched", lambda: call(MLOCK2, locked, 65536, 1), lambda: vmflag("lf"))
sealed = libc.mmap(None, 4096, 3, 0x22, -1, 0)
thing("sealed memory", lambda: call(462, sealed, 4096, 0), lambda: libc.mprotect(ctypes.c_void_p(sealed), 4096, 3))


def linked():
    try:  # a descriptor of a directory makes it linkat(2), which follows the link
        os.link("/proc/self/fd/%d" % nameless, sys.argv[1] + "/named", src_dir_fd=directory, follow_symlinks=True)
    except OSError:
        return False
    return True


directory = os.open(tempfile.mkdtemp(dir=sys.argv[1]), os.O_RDONLY)
notes = []
signal.signal(signal.SIGRTMIN, lambda *a: notes.append(1))
fcntl.fcntl(directory, fcntl.F_SETSIG, signal.SIGRTMIN)
thing("directory notification", lambda: fcntl.fcntl(directory, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT), lambda: noted())
nameless = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR, 0o600)
things["name for a nameless file"] = (linked, True)
thing("Landlock", lambda: landlock(), lambda: writable())
things["start time"] = (lambda: own("stat").split()[21], own("stat").split()[21])

used = time.process_time()
while time.process_time() < used + 0.2:
    pass
used = time.process_time()
things["processor time"] = (lambda: time.process_time() >= used, True)
print("ready", flush=True)
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.01)
for name, (get, before) in things.items():
    print(name + ":", "absent" if get is None else "kept" if get() == before else "lost", flush=True)
