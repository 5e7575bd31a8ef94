# watcher.py DIR watches a directory with inotify (or, as "watcher.py fanotify DIR",
# with fanotify) and reads nothing until DIR/read exists; then it says how often a
# file was created or closed. It goes on until DIR/end exists.
import ctypes, os, sys, time

libc = ctypes.CDLL(None, use_errno=True)
directory = sys.argv[-1]
if sys.argv[1] == "fanotify":
    watch = libc.fanotify_init(0x2, os.O_RDONLY)                       # FAN_NONBLOCK
    ok = libc.fanotify_mark(watch, 1, ctypes.c_uint64(0x8 | 0x08000000), -100, os.fsencode(directory))
else:
    watch = libc.inotify_init1(os.O_NONBLOCK)
    ok = libc.inotify_add_watch(watch, os.fsencode(directory), 0x8)    # IN_CLOSE_WRITE
if watch < 0 or ok < 0:
    sys.exit("cannot watch: " + os.strerror(ctypes.get_errno()))
# Not in the directory that is watched.
sign = directory + ".d/"
os.makedirs(sign, exist_ok=True)
events = 0


def make(n):
    for i in range(n):
        open(directory + "/%d" % i, "w").close()


def read():
    global events
    try:
        while True:
            b = os.read(watch, 65536)
            at = 0
            while at < len(b):
                if sys.argv[1] == "fanotify":
                    size = int.from_bytes(b[at:at + 4], sys.byteorder)
                    os.close(int.from_bytes(b[at + 16:at + 20], sys.byteorder))
                else:
                    size = 16 + int.from_bytes(b[at + 12:at + 16], sys.byteorder)
                at += size
                events += 1
    except BlockingIOError:
        pass


make(100)
print("queued", flush=True)
while not os.path.exists(sign + "read"):
    time.sleep(0.01)
read()
print("read", events, flush=True)
while not os.path.exists(sign + "more"):
    time.sleep(0.01)
make(10)
read()
print("all", events, flush=True)
