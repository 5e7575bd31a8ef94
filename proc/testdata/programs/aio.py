# aio.py poll|write DIR: has a request of the kernel's asynchronous I/O (libaio) in flight, and says how it ended, when
# DIR/go is there. poll waits for a pipe to be readable, write writes to DIR/file past the page cache. A child that was
# forked in between has the ring's memory and nothing in flight.
import ctypes, mmap, os, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
setup, destroy, getevents, submit, _ = {"x86_64": range(206, 211), "aarch64": (0, 1, 4, 2, 3)}[os.uname().machine]


def call(number, *args):
    n = libc.syscall(number, *args)
    if n < 0:
        raise OSError(ctypes.get_errno(), "io_* call %d" % number)
    return n


ring = ctypes.c_ulong(0)
call(setup, 64, ctypes.byref(ring))
what, directory = sys.argv[1:]
child = os.fork()
if child == 0:
    while not os.path.exists(directory + "/go"):
        time.sleep(0.01)
    os._exit(0)
PWRITE, POLL = 1, 5


def iocb(tag, op, fd, buf=0, length=0):
    return ctypes.create_string_buffer(struct.pack("=QIIHhIQQqQII", tag, 0, 0, op, 0, fd, buf, length, 0, 0, 0, 0), 64)


def start(*requests):
    list = (ctypes.c_void_p * len(requests))(*map(ctypes.addressof, requests))
    assert call(submit, ring, len(requests), list) == len(requests)


def ended(least, seconds):
    events, limit = ctypes.create_string_buffer(32 * 64), ctypes.create_string_buffer(struct.pack("=qq", seconds, 0))
    n = call(getevents, ring, least, 64, events, limit)
    return [struct.unpack_from("=QQqq", events, 32 * i)[::2] for i in range(n)]


r, w = os.pipe()
unread = iocb(7, POLL, w, 4)  # it can be written to: is answered at once, and stays in the ring
start(unread)
if what == "poll":
    request = iocb(8, POLL, r, 1)
else:
    page = mmap.mmap(-1, 4096)
    page.write(b"x" * 4096)
    file = os.open(directory + "/file", os.O_RDWR | os.O_DIRECT)
    request = iocb(8, PWRITE, file, ctypes.addressof(ctypes.c_char.from_buffer(page)), 4096)
start(request)
print("in flight", flush=True)
while not os.path.exists(directory + "/go"):
    time.sleep(0.01)
assert os.waitpid(child, 0)[1] == 0
if what == "poll":
    os.write(w, b"x")
print(sorted(ended(2, 20)), flush=True)
while not os.path.exists(directory + "/more"):
    time.sleep(0.01)
start(*[iocb(i, POLL, w, 4) for i in range(3)])
print("more", sorted(ended(3, 20)), flush=True)
call(destroy, ring)
