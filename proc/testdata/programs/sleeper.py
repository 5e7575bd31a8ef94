# sleeper.py DIR waits in many ways, again and again, until DIR/end exists, and then
# says how often a wait has ended before its time or with an error.
import ctypes, os, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
TIME = 0.7


class timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


def after(seconds, clock=None):
    t = seconds + (time.clock_gettime(clock) if clock is not None else 0)
    return ctypes.byref(timespec(int(t), int(t % 1 * 1e9)))


sem = ctypes.create_string_buffer(64)
libc.sem_init(sem, 0, 0)
reader, writer = os.pipe()
endless = ctypes.create_string_buffer(reader.to_bytes(4, sys.byteorder) + b"\1\0\0\0", 8)
left = timespec()
ways = {
    "sleep": lambda: libc.sleep(1),
    "usleep": lambda: libc.usleep(int(TIME * 1e6)),
    "nanosleep": lambda: libc.nanosleep(after(TIME), ctypes.byref(left)),
    "clock_nanosleep": lambda: libc.clock_nanosleep(1, 0, after(TIME), None),
    "clock_nanosleep until": lambda: libc.clock_nanosleep(1, 1, after(TIME, 1), None),
    "poll": lambda: libc.poll(None, 0, int(TIME * 1000)),
    "sem_timedwait": lambda: libc.sem_timedwait(sem, after(TIME, 0)) + 1 if ctypes.get_errno() in (0, 110) else -1,
}
early, done = {}, False


def run(name, call):
    early[name] = 0
    while not done:
        begin = time.clock_gettime(1)
        ctypes.set_errno(0)
        failed = call()
        # sem_timedwait is by the time of day, and a checkpoint is seen by that.
        if failed and ctypes.get_errno() != 110 or name != "sem_timedwait" and time.clock_gettime(1) - begin < TIME - 0.001:
            early[name] += 1


def forever():
    early["poll for ever"] = int(libc.poll(endless, 1, -1) != 1)


threads = [threading.Thread(target=run, args=w) for w in ways.items()] + [threading.Thread(target=forever)]
for t in threads:
    t.start()
print("ready", flush=True)
while not os.path.exists(sys.argv[1] + "/end"):
    time.sleep(0.01)
done = True
os.write(writer, b"x")
for t in threads:
    t.join()
print("early:", {k: v for k, v in early.items() if v})
