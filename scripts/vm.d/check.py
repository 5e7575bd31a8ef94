"""The checks of scripts/vm, run inside its machine as root: check.py BOOT [TESTS].

Boot 1 tries what tasks of ordinary users can do, attacks, and prepares tasks for a
reboot; boot 2 looks what has become of them and prepares others for a power
failure; boot 3 looks again, and runs tests of package proc. The exit code says how
to go on: 10 restart, 11 cut the power, anything else the end.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

import attack

STATE = "/var/lib/headrace"
ALICE, BOB, ROOT = 1001, 1002, 0
NAMES = {ALICE: "alice", BOB: "bob", ROOT: "root"}
LIMIT = 300  # seconds that anything may take; emulation is slow

# A program that does a known piece of work: numbers on its standard output and
# in a file of its own, with what it remembers in memory.
COUNTER = """
import os, sys, time
last, pause, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
memory = bytearray(8 << 20)
own = open(path, "a")
total = 0
for n in range(1, last + 1):
    total = (total * 31 + n) % 1000003
    memory[n * 4096 % len(memory)] = n % 251
    print(n, total, os.getpid(), os.getuid(), flush=True)
    print(n, total, file=own, flush=True)
    time.sleep(pause)
print("sum", sum(memory), flush=True)
"""

results = open("/dev/ttyS1", "w", buffering=1)


def say(line):
    results.write(line.replace("\n", " | ") + "\n")
    print(line, flush=True)


def check(ok, what, detail=""):
    """Prints the line of a check, with the detail where it failed."""
    say(("ok " if ok else "FAILED ") + what + ("" if ok else f": {detail}"))
    return ok


def hr(*args, user=ROOT, ok=True):
    """Calls headrace as a user and returns what it wrote."""
    p = subprocess.run(
        ["headrace", *map(str, args)], user=user, group=user, extra_groups=[], cwd=f"/home/{NAMES[user]}",
        env={"PATH": os.environ["PATH"], "HOME": f"/home/{NAMES[user]}", "LANG": "C.UTF-8", "HEADRACE_STATE_DIR": STATE},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT, umask=0o22)
    if ok and p.returncode != 0:
        raise RuntimeError(f"headrace {' '.join(map(str, args))} as {NAMES[user]}: {p.returncode}: {p.stderr}")
    return p.stdout.strip() if ok else p


def home(user):
    return f"/home/{NAMES[user]}"


def task_user(name):
    return {n: u for u, n in NAMES.items()}[task(name)["user"]]


def task(name, user=ROOT):
    return json.loads(hr("show", name, "--format", "json", user=user))


def await_(what, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"waited in vain for {what}: {hr('ps', '--all', ok=False).stdout}")
        time.sleep(0.05)


def await_state(name, *states):
    def there():
        t = task(name)
        return t["state"] in states and not t["doing"]
    await_(f"{name} to be {' or '.join(states)}", there)
    return task(name)


def counter(name, user, last, pause, *flags):
    """Starts a counter and returns its id."""
    return hr("run", "--name", name, *flags, "--", "python3", "-c", COUNTER, last, pause,
              f"/home/{NAMES[user]}/{name}.own", user=user)


def lines(name):
    try:
        with open(task(name)["stdoutPath"]) as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def await_line(name, n):
    await_(f"line {n} of {name}", lambda: len(lines(name)) >= n)


def expected(last):
    total, memory = 0, bytearray(8 << 20)
    for n in range(1, last + 1):
        total = (total * 31 + n) % 1000003
        memory[n * 4096 % len(memory)] = n % 251
        yield n, total
    yield "sum", sum(memory)


def complete(name, user, last):
    """Waits for the end of a counter and returns what is wrong with its work."""
    t = await_state(name, "done", "failed", "killed", "lost")
    if t["state"] != "done":
        return f"{t['state']}: {t['reason']}"
    want = list(expected(last))
    got = lines(name)
    pid = got[0].split()[2] if got else "?"
    text = [f"{n} {v} {pid} {user}" for n, v in want[:-1]] + [f"sum {want[-1][1]}"]
    if got != text:
        return f"its output differs: {len(got)} lines, wanted {len(text)}: {difference(got, text)}"
    with open(f"/home/{NAMES[user]}/{name}.own") as f:
        own = f.read().splitlines()
    text = [f"{n} {v}" for n, v in want[:-1]]
    if own != text:
        return f"its own file differs: {len(own)} lines, wanted {len(text)}: {difference(own, text)}"
    return ""


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as f:
        return f.read().strip()


def difference(got, want):
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            return f"line {i + 1} is {a!r}, wanted {b!r}"
    return "one is the beginning of the other"


def check_complete(name, user, last, what):
    wrong = complete(name, user, last)
    check(not wrong, f"{what}: output complete to the byte", f"{wrong}; {history(name)}")


def history(name):
    t = task(name)
    return "; ".join(f"{e['state']} ({e['reason']})" for e in t.get("history", []))


class Daemon:
    def __init__(self, *flags):
        self.log = open("/var/log/headrace.log", "a")
        self.log.write(f"--- solo {' '.join(flags)}\n")
        self.log.flush()
        self.process = subprocess.Popen(["headrace", "solo", "--state-dir", STATE, *flags], stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL, umask=0o77)
        await_("the daemon", self.answers)

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the daemon has ended with {self.process.returncode}: see its log")
        return hr("ps", ok=False).returncode == 0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT)


# Boot 1


def prepare_users():
    for uid in (ALICE, BOB):
        name = NAMES[uid]
        with open("/etc/passwd", "a") as f:
            f.write(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n")
        with open("/etc/group", "a") as f:
            f.write(f"{name}:x:{uid}:\n")
        os.makedirs(f"/home/{name}")
        os.chmod(f"/home/{name}", 0o700)
        os.chown(f"/home/{name}", uid, uid)
    os.makedirs("/home/root", exist_ok=True)


def doctor():
    for user in (ROOT, ALICE):
        p = hr("doctor", "--format", "json", user=user, ok=False)
        findings = json.loads(p.stdout)
        for f in findings:
            if f["status"] != "ok":
                say(f"note doctor as {NAMES[user]}: {f['name']}: {f['status']}: {f['what']}")
        # There is no swap at first, and cachestat came with Linux 6.5.
        missing = [f["name"] for f in findings if f["status"] == "missing" and f["name"] not in ("swap",)]
        if user == ROOT:
            check(not missing, "doctor finds nothing missing but swap", missing)
            criu = [f for f in findings if f["name"] == "criu"][0]
            check(criu["status"] == "ok", "doctor's trial of CRIU succeeds", criu["what"])


def by_hand(user):
    """Checkpoint, restore, suspend and resume of one user's task, by that user."""
    name, who = f"hand-{NAMES[user]}", NAMES[user]
    counter(name, user, 150, 0.02)
    for i in range(2):
        await_line(name, 10 + 40 * i)
        said = hr("checkpoint", name, user=user)
        if i == 0:
            check("checkpointed" in said, f"{who}'s task is checkpointed", said)
            check(task(name)["checkpoint"] is not None and not processes(user), f"{who}'s task has no processes after the checkpoint", processes(user))
        hr("restore", name, user=user)
    await_line(name, 70)
    hr("suspend", name, user=user)
    states = {p: state_of(p) for p in processes(user)}
    check(bool(states) and set(states.values()) <= {"T"}, f"{who}'s task is stopped when suspended", states)
    before = lines(name)
    time.sleep(0.5)
    check(lines(name) == before, f"{who}'s task does nothing while suspended")
    hr("checkpoint", name, user=user)  # a suspended task can be checkpointed
    hr("restore", name, user=user)
    await_state(name, "running", "suspended", "done")
    if task(name)["state"] == "suspended":
        hr("resume", name, user=user)
    check_complete(name, user, 150, f"{who}'s task after three checkpoints and a suspend")


def processes(user):
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and owner(p) == user and b"-c" in cmdline(p)]


def owner(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        return None


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def state_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def privacy():
    """Bob cannot see or touch what is Alice's."""
    id_ = counter("secret", ALICE, 100000, 0.05)
    await_line("secret", 3)
    check(id_ not in hr("ps", "--all", user=BOB) and "secret" not in hr("ps", "--all", user=BOB), "bob does not see alice's task in ps")
    check("secret" in hr("ps", user=ALICE) and "secret" in hr("ps"), "alice and root see it")
    for verb in ("show", "logs", "suspend", "checkpoint", "resume", "restore", "kill", "forget"):
        p = hr(verb, id_, user=BOB, ok=False)
        check(p.returncode == 4, f"bob's {verb} of alice's task says that there is none", f"exit code {p.returncode}, {p.stdout} {p.stderr}")
    check(task("secret")["state"] == "running", "alice's task runs on", task("secret")["state"])
    hr("checkpoint", id_, user=ALICE)
    could = tried_as(BOB)
    check(not could, "bob can read and change nothing of the state directory", could[:5])
    could = [c for c in tried_as(ALICE) if c[1] not in logs_of(ALICE)]
    check(not could, "alice can read and change nothing of it but her logs, and nothing of her checkpoint", could[:5])
    hr("restore", id_, user=ALICE)
    hr("kill", id_, user=ALICE)
    check(await_state("secret", "killed")["state"] == "killed", "alice kills her task")
    p = hr("run", "--user", "alice", "--", "true", user=BOB, ok=False)
    check(p.returncode != 0, "bob cannot run as alice", p.stdout)


# It tries all that can be done to the files that it reads the names of, and says what it could do.
TRIES = """
import os, sys
def change(path):
    os.rename(path, path + ".x")
    os.rename(path + ".x", path)
def create(path):
    os.close(os.open(path + "/x", os.O_CREAT | os.O_EXCL))
    os.unlink(path + "/x")
for path in sys.stdin.read().split(chr(0)):
    for what, do in {"open": lambda p: os.close(os.open(p, os.O_RDONLY | os.O_NONBLOCK)), "write": lambda p: os.close(os.open(p, os.O_WRONLY | os.O_NONBLOCK)),
                     "list": os.listdir, "rename": change, "create in": create, "chmod": lambda p: os.chmod(p, os.stat(p).st_mode & 0o7777),
                     "truncate": lambda p: os.truncate(p, os.stat(p).st_size), "link": lambda p: os.link(p, os.environ["HOME"] + "/linked")}.items():
        try:
            do(path)
            print(what, path, sep=chr(0))
        except OSError:
            pass
"""


def tried_as(user):
    """What a user can do to what is in the state directory, but to read its programs."""
    paths = [STATE] + [os.path.join(dir_, n) for dir_, names, files in os.walk(STATE) for n in names + files]
    kept = [p for p in paths if p.startswith(f"{STATE}/checkpoints/") and os.path.isfile(p)]
    if not kept:
        raise RuntimeError("there is no checkpoint to be tried")
    p = subprocess.run(["python3", "-c", TRIES], user=user, group=user, extra_groups=[], cwd="/", env={"HOME": home(user)},
                       input="\0".join(paths), stdout=subprocess.PIPE, text=True, check=True)
    could = [tuple(line.split("\0")) for line in p.stdout.splitlines()]
    return [c for c in could if not (c[0] in ("open", "list", "link") and (c[1] + "/").startswith(STATE + "/bin/"))]


def logs_of(user):
    """The logs of all tasks of a user, which are the user's own files."""
    tasks = json.loads(hr("ps", "--all", "--format", "json", user=user))["tasks"]
    return [f"{STATE}/tasks/{t['id']}/{name}" for t in tasks for name in ("stdout", "stderr", "progress")]


def preemption(policy):
    """Bob's urgent task takes the only slot of Alice's."""
    daemon = Daemon("--slots", "1", "--policy", policy, "--min-run", "0")
    low, urgent = f"low-{policy}", f"urgent-{policy}"
    counter(low, ALICE, 100, 0.02, "--priority", "low")
    await_line(low, 20)
    urgent_out = hr("run", "--name", urgent, "--priority", "high", "--wait", "--logs", "--", "sh", "-c", "id -un; sleep 1", user=BOB)
    check(urgent_out.splitlines()[-1] == "bob", f"policy {policy}: bob's urgent task runs as bob", urgent_out)
    check_complete(low, ALICE, 100, f"policy {policy}: alice's preempted task")
    t = task(low)
    check(t["preemptions"] == 1, f"policy {policy}: it was preempted once", history(low))
    say(f"note policy {policy}: {history(low)}")
    if policy == "checkpoint":
        check("checkpointed" in [e["state"] for e in t["history"]], "policy checkpoint: it was checkpointed", history(low))
    daemon.stop()


# Before and after a reboot


def prepare(mark):
    """Leaves tasks in every state."""
    Daemon("--slots", "20", "--min-run", "0", "--policy", "checkpoint")
    # It needs all slots, so that it stays preempted.
    counter(f"{mark}-preempted", ALICE, 200, 0.02, "--priority", "low", "--cpus", 20)
    await_line(f"{mark}-preempted", 20)
    hr("run", "--name", f"{mark}-urgent", "--priority", "high", "--", "sleep", 100000, user=BOB)
    await_state(f"{mark}-preempted", "checkpointed")
    for user in (ROOT, ALICE):
        name = f"{mark}-saved-{NAMES[user]}"
        counter(name, user, 200, 0.02)
        await_line(name, 30)
        hr("checkpoint", name, user=user)
    output = "/home/alice/own-output"
    counter(f"{mark}-output", ALICE, 200, 0.02, "--output", f"{output}-{mark}")
    await_(output, lambda: os.path.exists(f"{output}-{mark}") and open(f"{output}-{mark}").read().count("\n") > 30)
    hr("checkpoint", f"{mark}-output", user=ALICE)

    # These four get no further than "half" in this boot.
    for name, flags in (("lost", []), ("again", ["--restart"]), ("frozen", []), ("frozen-again", ["--restart"])):
        hr("run", "--name", f"{mark}-{name}", *flags, "--", "sh", "-c",
           f'if [ "$(cat /proc/sys/kernel/random/boot_id)" = {boot_id()} ]; then echo half; sleep 100000; fi; echo whole', user=ALICE)
        await_line(f"{mark}-{name}", 1)
        if "frozen" in name:
            hr("suspend", f"{mark}-{name}", user=ALICE)
    # A task without a file of its own has run on since its checkpoint: only its
    # log has changed, so that the checkpoint is still good.
    hr("run", "--name", f"{mark}-behind", "--restart", "--", "python3", "-uc",
       "import time\nfor n in range(1, 301): print(n); time.sleep(0.05)", user=ALICE)
    await_line(f"{mark}-behind", 10)
    hr("checkpoint", f"{mark}-behind", user=ALICE)
    hr("restore", f"{mark}-behind", user=ALICE)
    await_line(f"{mark}-behind", 30)
    want = {"lost": "running", "again": "running", "frozen": "suspended", "frozen-again": "suspended", "behind": "running",
            "preempted": "checkpointed", "saved-root": "checkpointed", "saved-alice": "checkpointed", "output": "checkpointed"}
    # The last things before the end.
    hr("run", "--name", f"{mark}-queued", "--cpus", 20, "--", "echo", "queued", user=BOB)
    states = {name: task(f"{mark}-{name}")["state"] for name in want}
    check(states == want, f"before the {mark} all tasks are as they should be", states)
    hr("run", "--name", f"{mark}-held", "--held", "--", "echo", "held", user=BOB)


def look(mark, how):
    """Starts the daemon and looks what has become of the tasks."""
    daemon = Daemon("--slots", "20")
    for name in ("lost", "frozen"):
        t = task(f"{mark}-{name}")
        check(t["state"] == "lost" and t["reason"], f"{how}: a {'running' if name == 'lost' else 'suspended'} task without --restart is lost", f"{t['state']}, {t['reason']}")
    for name in ("held", "queued"):
        t = hr("show", f"{mark}-{name}", "--format", "json", user=BOB, ok=False)
        check(t.returncode == 0, f"{how}: the {name} task acknowledged last is still there", t.stderr)
    check(task(f"{mark}-held")["held"], f"{how}: it is still held")
    for user in (ROOT, ALICE):
        name = f"{mark}-saved-{NAMES[user]}"
        t = task(name)
        check(t["state"] == "checkpointed", f"{how}: the task checkpointed by {NAMES[user]} is so still", f"{t['state']}, {t['reason']}")
        hr("restore", name, user=user, ok=False)
        check_complete(name, user, 200, f"{how}: the task checkpointed by {NAMES[user]}")
    # It may have to wait for its turn: tasks that were preempted go on as well.
    said = hr("restore", f"{mark}-output", user=ALICE, ok=False)
    check(said.returncode == 0, f"{how}: the checkpointed task with an output file of its own is restored", said.stderr)
    t = await_state(f"{mark}-output", "done", "failed", "lost", "killed", *(["checkpointed"] if said.returncode else []))
    got = open(f"/home/alice/own-output-{mark}").read().splitlines()
    check(t["state"] == "done" and len(got) == 201 and got[-1] == f"sum {list(expected(200))[-1][1]}" and [l.split()[0] for l in got[:-1]] == [str(n) for n in range(1, 201)],
          f"{how}: the checkpointed task with an output file of its own goes on", f"{t['state']}, {t['reason']}, {len(got)} lines")
    # What a user suspended is to stay so: it waits for that user.
    check(task(f"{mark}-frozen-again")["held"], f"{how}: the suspended task with --restart is held")
    hr("resume", f"{mark}-frozen-again", user=ALICE, ok=False)
    for name in ("again", "frozen-again"):
        t = await_state(f"{mark}-{name}", "done", "failed", "lost", "killed", "suspended")
        check(t["state"] == "done" and lines(f"{mark}-{name}") == ["whole"],
              f"{how}: a {'running' if name == 'again' else 'suspended'} task with --restart began again, its log emptied",
              f"{t['state']}, {lines(f'{mark}-{name}')}, {history(f'{mark}-{name}')}")
    t = await_state(f"{mark}-behind", "done", "failed", "lost", "killed")
    got = lines(f"{mark}-behind")
    check(got == [str(n) for n in range(1, 301)], f"{how}: a task that had run on since its checkpoint has complete output", f"{t['state']}, {len(got)} lines, {history(mark + '-behind')}")
    say(f"note {how}: {mark}-behind: {history(mark + '-behind')}")
    hr("resume", f"{mark}-held", user=BOB)
    for name in ("queued", "held"):
        t = await_state(f"{mark}-{name}", "done", "failed", "lost", "killed")
        check(t["state"] == "done" and lines(f"{mark}-{name}") == [name], f"{how}: the {name} task runs in its turn", f"{t['state']}, {t['reason']}")
    check_complete(f"{mark}-preempted", ALICE, 200, f"{how}: alice's preempted task, which goes on by itself")
    daemon.stop()


# Tests that are compiled into the machine

# Those of package proc that leave something out where root has no CAP_SYS_RESOURCE or the machine no cgroups of version 2.
NEED_THE_MACHINE = ("AnotherUser|ContinuedInARestore|KeysOfTheSession|SocketOptions|SocketsKeepTheirOwners|FilesOfTheKernel|TracerThatComes|"
                    "Cgroup|SuspendedStaysSo|SuspendOfTraced|CheckpointOfLocked|WhatWasFrozen|MemoryLimit|PIDsLimit|IOWeight|MemoryAddsUp")

# What of these is left out here too: a cgroup of version 1, weights where the kernel has none, and programs that are not installed.
MAY_BE_SKIPPED = r"TestCgroupOfAnotherScheduler|TestIOWeight|TestProgramsOfAnotherUser/.*"


def add_swap():
    subprocess.run("fallocate -l 512M /swapfile && chmod 600 /swapfile && mkswap -q /swapfile && swapon /swapfile", shell=True, check=True)


def tests(label, program, *flags):
    """Runs tests, of which none may be skipped that is here for this machine, and returns what they said."""
    env = dict(os.environ, HEADRACE_TEST_SHIM="/usr/local/bin/headrace-shim", TMPDIR="/var/tmp")
    with open(f"/var/log/{program}", "w") as log:
        p = subprocess.run([f"/vm/{program}", "-test.v", "-test.timeout=40m", *flags], cwd="/vm", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    text = open(f"/var/log/{program}", errors="replace").read()
    passed = 0
    for verdict, name in re.findall(r"^ *--- (\w+): (\S+)", text, re.M):
        passed += verdict == "PASS"
        if verdict == "SKIP" and re.search(NEED_THE_MACHINE, name) and not re.fullmatch(MAY_BE_SKIPPED, name):
            check(False, f"{label}: {name}", "it was skipped")
        elif verdict == "SKIP":
            say(f"note {label}: skipped {name}")
        elif "/" not in name or verdict == "FAIL":
            said = text.partition(f"=== RUN   {name}\n")[2].partition(f"--- {verdict}: {name} ")[0]
            check(verdict == "PASS", f"{label}: {name}", re.findall(r"^ +\w+_test.go:\d+: .*", said, re.M)[:5])
    if p.returncode != 0:
        print(text)
    check(p.returncode == 0 and passed > 0, f"{label}: {passed} passed, with their parts", f"exit code {p.returncode}")
    return text


def hostile():
    """The attack of solo/hostile, whole."""
    said = tests("hostile", "hostile.test", "-test.run=^TestHostileUser$")
    left = re.findall(r"left out: (.*)", said)
    check(not left and re.search(r"checkpoints: \d+ requests", said), "hostile: nothing is left out", left or said[-2000:])


PLANNED = "/vm/planned"  # is there when this boot was meant to come


def main():
    boot, with_tests = int(sys.argv[1]), len(sys.argv) > 2 and sys.argv[2]
    if boot > 1:
        os.remove(PLANNED)
        os.sync()
    if boot == 1:
        say(f"note Linux {os.uname().release}, {os.cpu_count()} processors")
        prepare_users()
        doctor()
        daemon = Daemon("--slots", "4")
        by_hand(ROOT)
        by_hand(ALICE)
        privacy()
        attack.run(sys.modules[__name__], ALICE)
        daemon.stop()
        hostile()
        for policy in ("checkpoint", "cost"):
            preemption(policy)
        prepare("reboot")
        return 10
    if boot == 2:
        look("reboot", "reboot")
        prepare("power")
        return 11
    look("power", "power failure")
    tests("tests", "proc.test", "-test.run=" + (with_tests or NEED_THE_MACHINE))
    if with_tests == ".":
        add_swap()
        tests("tests with swap", "proc.test", "-test.run=Swap|Memory|Suspend|Page|Checkpoint")
    say("finished")
    return 0


try:
    code = main()
    if code in (10, 11):
        fd = os.open(PLANNED, os.O_CREAT | os.O_WRONLY)
        os.fsync(fd)
        directory = os.open("/vm", os.O_RDONLY)
        os.fsync(directory)
except Exception as e:  # whatever it is, it must be seen outside
    import traceback
    traceback.print_exc()
    say(f"FAILED {type(e).__name__}: {e}")
    code = 1
if code not in (0, 10, 11) or code == 0:
    subprocess.run("tail -n 60 /var/log/headrace.log; dmesg | grep -iE 'segfault|traps|oom|bug' | tail", shell=True)
os._exit(code)
