# Holds locks on a file that it has mapped, as SQLite does, and one that it has not. Without an argument prints "ready", and when
# it gets a line what another process finds locked; "end" ends it. The second argument has a signal and a child wait meanwhile.
import fcntl, mmap, os, signal, struct, sys

def held(f, at):
    # As F_GETLK says in another process: its type, start and length.
    r, w = os.pipe()
    if os.fork() == 0:
        ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0)
        kind, _, start, length, pid = struct.unpack("hhqqi4x", fcntl.fcntl(f, fcntl.F_GETLK, ask))
        os.write(w, f"{'RWU'[kind]}{start}+{length}{'' if pid == os.getppid() else ' of %d' % pid if kind != fcntl.F_UNLCK else ''}".encode())
        os._exit(0)
    os.close(w)
    text = os.read(r, 100).decode()
    os.close(r)
    os.wait()
    return text

taken = 0
def count(*_):
    global taken
    taken += 1
signal.signal(signal.SIGUSR1, count)
with open(sys.argv[1], "wb") as f: f.truncate(1 << 16)
mapped = open(sys.argv[1], "r+b")
memory = mmap.mmap(mapped.fileno(), 1 << 16)
other = open(sys.argv[1] + ".other", "w+b")
fcntl.lockf(mapped, fcntl.LOCK_SH, 1, 100)
fcntl.lockf(mapped, fcntl.LOCK_EX, 8, 200)
fcntl.lockf(mapped, fcntl.LOCK_EX, 0, 1 << 33)
fcntl.lockf(other, fcntl.LOCK_EX, 1, 7)
print("ready", flush=True)
while True:
    with open(sys.argv[1] + ".go") as go: line = go.readline().strip()
    if line == "end": break
    if not line: continue # it was opened while who wrote the line before had yet to close it
    print(line, held(mapped, 100), held(mapped, 201), held(mapped, 300), held(mapped, 1 << 34), held(other, 7), taken, flush=True)
