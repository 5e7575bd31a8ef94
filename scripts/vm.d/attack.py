"""What scripts/vm tries against checkpoints as a hostile user.

A restore opens files with root's rights. Here a user swaps, between checkpoint
and restore, whatever the task had open for something of root's. Each restore
must be refused, and root's files must be neither read nor changed; when all is
as it was, the task must go on.
"""
import os
import subprocess

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
    racing(vm, v, f"{secret}/data")
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
while True:
    for _ in range(2):
        renameat2(-100, a, -100, b, 2)
    if not os.path.exists(sys.argv[3]):
        break
"""


def racing(vm, v, secret, rounds=10):
    """Restores while the user swaps a file all the time."""
    sub, wrong, refused = f"{v.top}/sub", [], 0
    for _ in range(rounds):
        as_user(v.user, "ln", "-s", secret, f"{sub}/link")
        as_user(v.user, "touch", f"{v.top}/go")
        p = subprocess.Popen(["python3", "-c", SWAPPER, f"{sub}/data", f"{sub}/link", f"{v.top}/go"], user=v.user, group=v.user, extra_groups=[])
        said = v.restore()
        os.remove(f"{v.top}/go")
        p.wait(vm.LIMIT)
        os.remove(f"{sub}/link")
        refused += bool(said)
        v.bring_back()
        wrong.append(v.ask())
        v.checkpoint()
    vm.check(not any(wrong), f"attack: {rounds} restores of a file that is swapped all the time give the right one or are refused", wrong)
    vm.say(f"note attack: {refused} of {rounds} were refused")
    v.bring_back()


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


def refused_kinds(vm, user):
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


def run(vm, user):
    swapping(vm, user)
    deleted_files(vm, user)
    refused_kinds(vm, user)
