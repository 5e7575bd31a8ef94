# timers.py DIR has an event loop with timers of all kinds. It prints a round each
# time when all periodic ones have ticked, ends when DIR/end exists and the timer of
# a second has expired, and says then what became of the others.
import ctypes, os, select, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
NONBLOCK, ABSTIME = 0o4000, 1
REALTIME, MONOTONIC, BOOTTIME = 0, 1, 7


def timer(clock, first=0.0, interval=0.0, flags=0):
    fd = libc.timerfd_create(clock, NONBLOCK)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    if first:
        spec = ctypes.create_string_buffer(struct.pack("llll", *split(interval), *split(first)))
        if libc.timerfd_settime(fd, flags, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
    return fd


def split(seconds):
    return int(seconds), int(seconds % 1 * 1e9)


def ticks(fd):
    try:
        return struct.unpack("Q", os.read(fd, 8))[0]
    except BlockingIOError:
        return 0


def now(clock):
    return time.clock_gettime(clock)


periodic = {
    "5ms": timer(MONOTONIC, 0.005, 0.005),
    "5ms boottime": timer(BOOTTIME, 0.005, 0.005),
    "300ms": timer(MONOTONIC, 0.3, 0.3),
    "200ms time of day": timer(REALTIME, now(REALTIME) + 0.2, 0.2, ABSTIME),
    "100ms from a moment": timer(MONOTONIC, now(MONOTONIC) + 0.1, 0.1, ABSTIME),
}
once = timer(MONOTONIC, 1)
moment = now(MONOTONIC) + 1.5
at = timer(MONOTONIC, moment, 0, ABSTIME)
unread = timer(MONOTONIC, 0.001)
never = timer(MONOTONIC)
read = timer(REALTIME, now(REALTIME) + 0.001, 0, ABSTIME)
while not ticks(read):
    time.sleep(0.001)

# The child has timers of its own, and shares those above.
if os.fork() == 0:
    mine = timer(MONOTONIC, 0.01, 0.01)
    poll = select.epoll()
    poll.register(mine, select.EPOLLIN)
    count = 0
    while os.getppid() != 1 and not os.path.exists(sys.argv[1] + "/end"):
        for fd, _ in poll.poll(20):
            count += ticks(fd)
        open(sys.argv[1] + "/child", "w").write(str(count))
    os._exit(0)

poll = select.epoll()
for fd in [*periodic.values(), once, at, read, never]:
    poll.register(fd, select.EPOLLIN)
seen, counts, rounds = set(), {}, 0
while not (os.path.exists(sys.argv[1] + "/end") and counts.get(once) and counts.get(at)):
    for fd, _ in poll.poll(20):
        n = ticks(fd)
        if fd == at and now(MONOTONIC) < moment:
            print("early by", moment - now(MONOTONIC))
        counts[fd] = counts.get(fd, 0) + n
        if n:
            seen.add(fd)
    if seen >= set(periodic.values()):
        seen, rounds = set(), rounds + 1
        print("round", rounds, flush=True)
print("once", counts[once], "at", counts[at], "read", counts.get(read, 0), "never", counts.get(never, 0), "unread", ticks(unread))
