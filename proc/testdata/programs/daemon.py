# daemon.py DIR leaves a daemon and a child of it, as daemon(3) does. Each appends to
# a file of its own, and the daemon ends with the command.
import os, sys, time
d = sys.argv[1]


def serve(name):
    while not os.path.exists(d + "/end"):
        open(d + "/" + name, "a").write("%d %d %d\n" % (os.getpid(), os.getpgrp(), os.getppid()))
        time.sleep(0.01)


if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if os.fork() == 0:
            serve("child")
        else:
            serve("daemon")
            os.wait()
            open(d + "/ending", "w").write("daemon and child")
            os.rename(d + "/ending", d + "/ended")  # whole, or not there
        os._exit(0)
    os._exit(0)
os.wait()
print("ready", flush=True)
while not os.path.exists(d + "/ended"):
    time.sleep(0.01)
print(open(d + "/ended").read(), flush=True)
