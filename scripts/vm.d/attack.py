"""What scripts/vm tries against checkpoints as a hostile user.

A restore opens files with root's rights. Here a user swaps, between checkpoint
and restore, whatever the task had open for something of root's. Each restore
must be refused, and root's files must be neither read nor changed; when all is
as it was, the task must go on.
"""
import os
import subprocess
import tty

SECRET = "secret-of-root-" + "x" * 85

# It has files in every way in which a process can have one, and says what they
# hold whenever its input has grown by a line.
VICTIM = """
import mmap, os, sys, time
top = sys.argv[1]
os.chdir(top + "/sub/cwd")
path = top + "/sub/data"
ro, rw = open(path), os.open(path, os.O_RDWR)
log = os.open(top + "/sub/log", os.O_WRONLY | os.O_APPEND)
fifo = os.open(top + "/sub/fifo", os.O_RDWR)
mapped = open(top + "/sub/mapped", "r+b")
shared = mmap.mmap(mapped.fileno(), 100)
private = mmap.mmap(mapped.fileno(), 100, flags=mmap.MAP_PRIVATE)
asked, n = open(top + "/input"), 0
while True:
    line = asked.readline()
    if not line:
        time.sleep(0.02)
        continue
    n += 1
    ro.seek(0)
    os.write(log, b"log\\n")
    print(n, ro.read(6), os.pread(rw, 6, 0).decode(), shared[:6].decode(), private[:6].decode(),
          os.getcwd() == top + "/sub/cwd", os.getuid(), flush=True)
    if line == "end\\n":
        break
"""


class Victim:
    def __init__(self, vm, user):
        self.vm, self.user, self.n, self.name = vm, user, 0, "victim"
        self.top = f"{vm.home(user)}/victim"
        os.makedirs(f"{self.top}/sub/cwd")
        for name, content in (("sub/data", "public"), ("sub/log", ""), ("sub/mapped", "public")):
            self.write(name, content.ljust(100, "p") if content else "")
        self.write("input", "")
        os.mkfifo(f"{self.top}/sub/fifo")
        for dir_, names, files in os.walk(self.top):
            for path in [dir_] + [os.path.join(dir_, f) for f in files]:
                os.chown(path, user, user)
        self.program = f"{self.top}/sub/python"
        with open("/usr/bin/python3", "rb") as f, open(self.program, "wb") as g:
            g.write(f.read())
        os.chmod(self.program, 0o755)
        os.chown(self.program, user, user)
        vm.hr("run", "--name", self.name, "--", self.program, "-c", VICTIM, self.top, user=user)
        self.ask()
        self.checkpoint()

    def write(self, name, content):
        path = f"{self.top}/{name}"
        with open(path, "w") as f:
            f.write(content)
        os.chmod(path, 0o600)
        os.chown(path, self.user, self.user)

    def ask(self, line="look"):
        """Has it look at its files, and returns what it says of them if that is wrong."""
        with open(f"{self.top}/input", "a") as f:
            f.write(line + "\n")
        self.n += 1
        self.vm.await_line(self.name, self.n)
        want = f"{self.n} public public public public True {self.user}"
        got = self.vm.lines(self.name)[self.n - 1]
        return "" if got == want else f"it says {got!r}, wanted {want!r}"

    def checkpoint(self):
        self.vm.hr("checkpoint", self.name, user=self.user)

    def restore(self):
        """Returns the error of a restore, empty if it runs."""
        p = self.vm.hr("restore", self.name, user=self.user, ok=False)
        if p.returncode == 0 and self.vm.task(self.name)["state"] == "running":
            return ""
        return p.stdout + p.stderr + self.vm.task(self.name)["reason"]

    def bring_back(self):
        """Restores it after a refusal. The daemon may have done so by itself."""
        def runs():
            if self.vm.task(self.name)["state"] != "running":
                self.vm.hr("restore", self.name, user=self.user, ok=False)
            return self.vm.task(self.name)["state"] == "running"
        self.vm.await_("the victim to run again", runs)


def as_user(user, *argv):
    subprocess.run(argv, user=user, group=user, extra_groups=[], check=True)


def start_as(user, *argv):
    """Starts a program that says something when it is about its work."""
    p = subprocess.Popen(argv, user=user, group=user, extra_groups=[], cwd="/", stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    return p


def swaps(v, secret):
    """Yields what is swapped, the path, and the commands of the user that do it."""
    sub = f"{v.top}/sub"
    for name in ("data", "log", "mapped", "fifo", "python"):
        yield f"{name} by a link to a file of root's", f"{sub}/{name}", ["ln", "-s", secret + "/" + name, f"{sub}/{name}"]
    yield "the working directory by a link", f"{sub}/cwd", ["ln", "-s", secret + "/cwd", f"{sub}/cwd"]
    yield "the directory above by a link", sub, ["ln", "-s", secret, sub]
    yield "data by another file of the user's", f"{sub}/data", ["cp", "-p", f"{sub}/data.kept", f"{sub}/data"]


def root_files(path):
    """A directory with the same names as the victim's, and what it holds."""
    os.makedirs(f"{path}/cwd", mode=0o700)
    for name in ("data", "log", "mapped"):
        with open(f"{path}/{name}", "w") as f:
            f.write("" if name == "log" else SECRET)
        os.chmod(f"{path}/{name}", 0o600)
    os.mkfifo(f"{path}/fifo", 0o600)
    with open("/usr/bin/python3", "rb") as f, open(f"{path}/python", "wb") as g:
        g.write(f.read())
    os.chmod(f"{path}/python", 0o755)


def snapshot(path):
    """All that could have been changed below a directory."""
    found = {}
    for dir_, names, files in os.walk(path):
        for p in [dir_] + [os.path.join(dir_, f) for f in files]:
            st = os.lstat(p)
            found[p] = (st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return found


def swapping(vm, user):
    secret = f"{vm.home(vm.ROOT)}/attacked"
    root_files(secret)
    before = snapshot(secret)
    v = Victim(vm, user)
    for what, path, command in swaps(v, secret):
        as_user(user, "mv", path, path + ".kept")
        as_user(user, *command)
        said = v.restore()
        state = vm.task(v.name)["state"]
        vm.check(state == "checkpointed" and "which the task had open" in said and v.top in said,
                 f"attack: swapping {what} is refused with the reason", f"{state}: {said}")
        as_user(user, "rm", "-rf", path)
        as_user(user, "mv", path + ".kept", path)
        v.bring_back()
        wrong = v.ask()
        vm.check(not wrong, f"attack: after swapping {what} back the task goes on", wrong)
        v.checkpoint()
    racing(vm, v, "a file", f"{v.top}/sub/data", f"{secret}/data")
    racing(vm, v, "the directory above", f"{v.top}/sub", secret)
    v.ask("end")
    t = vm.await_state(v.name, "done", "failed", "killed", "lost")
    vm.check(t["state"] == "done", "attack: the victim comes to its end", f"{t['state']}, {t['reason']}")
    leaked = [l for l in vm.lines(v.name) if "secret" in l]
    vm.check(not leaked, "attack: nothing of root's was read", leaked)
    vm.check(snapshot(secret) == before, "attack: nothing of root's was changed", "the files differ")


SWAPPER = """
import ctypes, os, sys
a, b = (s.encode() for s in sys.argv[1:3])
renameat2 = ctypes.CDLL(None).renameat2
first = True
while True:
    for _ in range(2):
        renameat2(-100, a, -100, b, 2)
    if first:
        print("swaps", flush=True)
    first = False
    if not os.path.exists(sys.argv[3]):
        break
"""


def racing(vm, v, what, path, secret, rounds=10):
    """Restores while the user swaps a path all the time."""
    link, go, wrong, refused = f"{v.top}/link", f"{v.top}/go", [], 0
    for _ in range(rounds):
        as_user(v.user, "ln", "-s", secret, link)
        as_user(v.user, "touch", go)
        p = start_as(v.user, "python3", "-c", SWAPPER, path, link, go)
        said = v.restore()
        os.remove(go)
        p.wait(vm.LIMIT)
        os.remove(link)
        refused += bool(said)
        v.bring_back()
        wrong.append(v.ask())
        v.checkpoint()
    vm.check(not any(wrong), f"attack: {rounds} restores while {what} is swapped all the time give the right one or are refused", wrong)
    vm.say(f"note attack: {refused} of {rounds} were refused while {what} was swapped")
    v.bring_back()


# It looks at the descriptors of all processes that it may look at, and says which of them
# it could take that give it more than it could open itself.
GRABBER = """
import ctypes, fcntl, os, stat, sys
call, taken, got = ctypes.CDLL(None, use_errno=True).syscall, 0, set()
print("looks", flush=True)
while os.path.exists(sys.argv[1]):
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            names = os.listdir(f"/proc/{pid}/fd") if pid != os.getpid() else []
        except OSError:
            continue
        process = call(434, pid, 0)  # pidfd_open
        for name in names:
            fd = call(438, process, int(name), 0)  # pidfd_getfd
            if fd < 0:
                continue
            taken += 1
            st, flags, path = os.fstat(fd), fcntl.fcntl(fd, fcntl.F_GETFL), os.readlink(f"/proc/self/fd/{fd}")
            more = path.startswith(sys.argv[2]) and st.st_uid != os.getuid()
            if stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode):
                try:
                    os.close(os.open(f"/proc/self/fd/{fd}", flags & (os.O_ACCMODE | os.O_PATH)))
                except PermissionError:
                    more = True
            if more:
                got.add(f"{path} {flags:o}")
            os.close(fd)
        if process >= 0:
            os.close(process)
print(taken, *got, sep="\\n")
"""


def grabbing(vm, user, rounds=20):
    """Checkpoints and restores while the user takes descriptors out of the own processes: CRIU is in them."""
    go = f"{vm.home(user)}/grab"
    vm.counter("grabbed", user, 100000, 0.01)
    vm.await_line("grabbed", 3)
    as_user(user, "touch", go)
    p = start_as(user, "python3", "-c", GRABBER, go, vm.STATE + "/")
    for _ in range(rounds):
        vm.hr("checkpoint", "grabbed", user=user)
        vm.hr("restore", "grabbed", user=user)
    os.remove(go)
    taken, *got = p.communicate(timeout=vm.LIMIT)[0].splitlines()
    vm.check(not got, "attack: nothing of root's is in the user's processes while they are checkpointed and restored", sorted(got))
    vm.check(int(taken) > rounds, "attack: descriptors of the user's processes were taken meanwhile", taken)
    vm.hr("kill", "--grace", "0s", "grabbed", user=user)


# It has both sides of a terminal, and says what comes through.
TERMINAL = """
import os, sys, time, tty
master, slave = os.openpty()
tty.setraw(slave)
asked = open(sys.argv[1])
print(os.ttyname(slave), flush=True)
while True:
    line = asked.readline()
    if not line:
        time.sleep(0.02)
        continue
    os.write(slave, b"out"); os.write(master, b"in")
    print(os.read(master, 100), os.read(slave, 100), os.fstat(slave).st_uid == os.getuid(), flush=True)
    if line == "end\\n":
        break
"""


def terminals(vm, user):
    """Root takes the terminal's number while the task is checkpointed."""
    asked = f"{vm.home(user)}/asked"
    as_user(user, "touch", asked)
    vm.hr("run", "--name", "terminal", "--", "python3", "-c", TERMINAL, asked, user=user)
    vm.await_line("terminal", 1)
    name = vm.lines("terminal")[0]
    vm.hr("checkpoint", "terminal", user=user)
    roots = []
    while not any(os.ttyname(slave) == name for _, slave in roots) and len(roots) < 100:
        roots.append(os.openpty())
    master, slave = roots[-1]
    vm.check(os.ttyname(slave) == name, f"attack: root has the terminal {name} now", os.ttyname(slave))
    tty.setraw(slave)
    os.write(slave, SECRET.encode())
    os.write(master, SECRET.encode())
    p = vm.hr("restore", "terminal", user=user, ok=False)
    vm.say(f"note attack: {name} is another's: {vm.task('terminal')['state']}: {p.stderr.strip()}")
    said = 1
    if vm.task("terminal")["state"] == "running":  # under another number
        with open(asked, "a") as f:
            f.write("look\n")
        said = 2
        vm.await_line("terminal", said)
    os.set_blocking(master, False)
    os.set_blocking(slave, False)
    vm.check([os.read(fd, 1000) for fd in (master, slave)] == [SECRET.encode()] * 2, "attack: root's terminal has what root has written, and nothing else")
    for fd in (fd for pair in roots for fd in pair):
        os.close(fd)
    vm.await_("the task with a terminal to run again", lambda: vm.task("terminal")["state"] == "running" or vm.hr("restore", "terminal", user=user, ok=False) is None)
    with open(asked, "a") as f:
        f.write("end\n")
    t = vm.await_state("terminal", "done", "failed", "killed", "lost")
    vm.check(t["state"] == "done" and vm.lines("terminal")[1:] == ["b'out' b'in' True"] * said, "attack: the task has its own terminal again",
             f"{t['state']}, {t['reason']}, {vm.lines('terminal')}")


# Deleted files are made anew by CRIU, as root.
DELETED = """
import os, sys, time
f = open(sys.argv[1], "w+"); f.write("mine"); f.flush(); os.unlink(sys.argv[1])
m = open("/dev/shm/of-alice", "w+"); m.write("too"); m.flush(); os.unlink("/dev/shm/of-alice")
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
f.seek(0); m.seek(0)
print(f.read(), m.read(), os.fstat(f.fileno()).st_uid == os.getuid(), flush=True)
"""


def deleted_files(vm, user):
    dir_, closed, end = f"{vm.home(user)}/deleted", f"{vm.home(vm.ROOT)}/closed", f"{vm.home(user)}/end"
    os.makedirs(closed, mode=0o700)
    as_user(user, "mkdir", dir_)
    vm.hr("run", "--name", "deleted", "--", "python3", "-c", DELETED, f"{dir_}/f", end, user=user)
    vm.await_("the file to be deleted", lambda: vm.task("deleted")["state"] == "running" and os.path.isdir(dir_) and started(vm, "deleted"))
    vm.hr("checkpoint", "deleted", user=user)
    before = snapshot(closed)
    as_user(user, "mv", dir_, dir_ + ".kept")
    as_user(user, "ln", "-s", closed, dir_)
    p = vm.hr("restore", "deleted", user=user, ok=False)
    as_user(user, "touch", end)
    t = vm.await_state("deleted", "done", "failed", "killed", "lost", "checkpointed")
    vm.check(t["state"] == "done" and vm.lines("deleted") == ["mine too True"], "attack: a deleted file comes back, whatever its directory is now",
             f"{t['state']}, {t['reason']}, {vm.lines('deleted')}, {p.stderr}")
    vm.check(snapshot(closed) == before, "attack: it was not made in a directory of root's", os.listdir(closed))


def started(vm, name):
    """Whether the task sleeps in its loop: its files are as they stay."""
    for pid in vm.processes(vm.task_user(name)):
        links = []
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except FileNotFoundError:
            pass
        if sum("(deleted)" in l for l in links) == 2:
            return True
    return False


# Kinds of tasks that cannot be brought back safely: a command that says "ready",
# and a part of the reason.
KINDS = {
    "a terminal whose other side is elsewhere": ("""
import os, time
f = os.open(open(os.environ["HOME"] + "/terminal").read(), os.O_RDWR | os.O_NOCTTY)
print("ready", flush=True); time.sleep(100000)""", "terminal"),
    "a unix socket with a path": ("""
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind(os.environ["HOME"] + "/sock"); s.listen()
print("ready", flush=True); time.sleep(100000)""", "a unix socket with a path"),
    "a file with another name": ("""
import os, time
h = os.environ["HOME"]; f = open(h + "/one", "w"); os.link(h + "/one", h + "/two"); os.unlink(h + "/one")
print("ready", flush=True); time.sleep(100000)""", "link"),
    "a set-user-id program": ("""
import os, time, subprocess
p = subprocess.Popen(["/usr/local/bin/sleep-as-root", "100000"])
while open("/proc/%d/comm" % p.pid).read() != "sleep-as-root\\n": time.sleep(0.01)
print("ready", flush=True); time.sleep(100000)""", "runs as user 0"),
}


HOLDER = """
import os, sys
master, slave = os.openpty()
open(os.environ["HOME"] + "/terminal", "w").write(os.ttyname(slave))
print("has it", flush=True)
sys.stdin.read()
"""


def refused_kinds(vm, user):
    holder = subprocess.Popen(["python3", "-c", HOLDER], user=user, group=user, extra_groups=[], cwd="/", env={"HOME": vm.home(user)},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    with open("/bin/sleep", "rb") as f, open("/usr/local/bin/sleep-as-root", "wb") as g:
        g.write(f.read())
    os.chmod("/usr/local/bin/sleep-as-root", 0o4755)
    for i, (what, (program, reason)) in enumerate(KINDS.items()):
        name = f"kind-{i}"
        vm.hr("run", "--name", name, "--", "python3", "-c", program, user=user)
        vm.await_line(name, 1)
        p = vm.hr("checkpoint", name, user=user, ok=False)
        t = vm.task(name)
        said = p.stdout + p.stderr + t["reason"]
        vm.check(p.returncode != 0 and reason in said and t["state"] == "running", f"attack: {what} is not checkpointed, and the task runs on", f"{t['state']}: {said}")
        vm.hr("kill", "--grace", "0s", name, user=user)
    os.remove("/usr/local/bin/sleep-as-root")
    holder.communicate(timeout=vm.LIMIT)


def run(vm, user):
    for part in swapping, deleted_files, terminals, grabbing, refused_kinds:
        try:
            part(vm, user)
        except Exception as e:  # the others are tried all the same
            vm.check(False, f"attack: {part.__name__}", f"{type(e).__name__}: {e}")
