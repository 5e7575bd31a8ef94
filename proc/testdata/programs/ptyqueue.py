"""Fills a terminal and reads it when it is told to: raw|cooked BYTES GATE.

BYTES are written to the slave of a new pty before its master reads any; then they
are read and compared. GATE is a file whose appearance is the word.
"""
import fcntl
import os
import pty
import struct
import sys
import termios
import time
import tty

mode, size, gate = sys.argv[1], int(sys.argv[2]), sys.argv[3]
data = b"".join(b"%07d\n" % i for i in range(size // 8))
master, slave = pty.openpty()
if mode == "raw":
    tty.setraw(slave)
pid = os.fork()
if pid == 0:
    os.close(master)
    os.setsid()
    os.set_blocking(slave, False)
    done = told = 0
    while done < len(data):
        try:
            done += os.write(slave, data[done : done + 1000])
        except BlockingIOError:  # it is full
            if not told:
                told = 1
                print("full", flush=True)
            time.sleep(0.01)
    print("written", flush=True)
    while True:
        time.sleep(100)
def queued():
    return struct.unpack("i", fcntl.ioctl(master, termios.FIONREAD, bytes(4)))[0]


want, got = data if mode == "raw" else data.replace(b"\n", b"\r\n"), b""
while queued() < min(len(want), 4095):  # the kernel passes it on in its own time
    time.sleep(0.01)
print("queued", flush=True)
while not os.path.exists(gate):
    time.sleep(0.02)
while len(got) < len(want):
    got += os.read(master, 65536)
print("right" if got == want else "wrong: %r... of %d" % (got[:40], len(got)), flush=True)
os.kill(pid, 9)
os.waitpid(pid, 0)
