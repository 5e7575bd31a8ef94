# Ignores what asks it to stop, and leaves daemons about.
import os, signal, sys, time
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
signal.signal(signal.SIGTTIN, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        i = 0
        while True: i += 1
    os._exit(0)
os.wait()
for n in range(1, 26):
    print("step", n, "done", flush=True)
    end = time.time() + 0.02
    while time.time() < end or n == 20 and not os.path.exists(os.environ["GO_ON"]): pass
sys.exit(6)
