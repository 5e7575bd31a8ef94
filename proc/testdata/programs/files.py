# Deleted files, file locks, a pipe, a memory-mapped file, shared memory.
import fcntl, mmap, os, sys, tempfile, time
from multiprocessing import Process, Pipe, Value
d = sys.argv[1]
gone = open(os.path.join(d, "gone"), "w+"); os.unlink(gone.name)
lock = open(os.path.join(d, "lock"), "w"); fcntl.flock(lock, fcntl.LOCK_EX)
rec = open(os.path.join(d, "rec"), "w+"); fcntl.lockf(rec, fcntl.LOCK_EX, 10)
m = mmap.mmap(-1, 1 << 20)
r, w = os.pipe()
shared = Value("i", 0)
here, there = Pipe()
def child():
    while (x := there.recv()) is not None:
        with shared.get_lock(): shared.value += x
        there.send(x * 2)
p = Process(target=child); p.start()
for n in range(1, 26):
    gone.write("line %d\n" % n); gone.flush()
    m[n] = n
    os.write(w, b"%d;" % n)
    here.send(n)
    print("step", n, here.recv(), shared.value, flush=True)
    time.sleep(0.02)
    while n == 20 and not os.path.exists(os.environ["GO_ON"]): time.sleep(0.01)
here.send(None); p.join()
gone.seek(0); print(len(gone.read()), sum(m[:30]), os.read(r, 1000))
try:
    if os.fork() == 0:
        try: fcntl.flock(open(lock.name, "w"), fcntl.LOCK_EX | fcntl.LOCK_NB); os._exit(1)
        except BlockingIOError: os._exit(0)
    print("lock held:", os.wait()[1] == 0)
finally: pass
