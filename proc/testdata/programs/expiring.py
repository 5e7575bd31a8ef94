# expiring.py PIDFILE has timers that tell by a signal, each once: that of setitimer(2), and of
# timer_create(2) one for each real-time signal. It says "armed N" when all of a round
# are, and "round N" with what has come, and how often, when there is a file PIDFILE.N and all have had the time to. A SIGUSR1 counts too.
import ctypes, os, signal, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
MONOTONIC = 1
# CRIU writes this between the signals that wait for the process and its timers.
memory = bytearray(os.urandom(1 << 20) * 192)
own = range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
waited = {signal.SIGALRM, signal.SIGUSR1, *own}
signal.pthread_sigmask(signal.SIG_BLOCK, waited)


def made(sig):
    timer, event = ctypes.c_void_p(), ctypes.create_string_buffer(struct.pack("Qii", sig, sig, 0), 64)
    if libc.timer_create(MONOTONIC, event, ctypes.byref(timer)) != 0:
        raise OSError(ctypes.get_errno(), "timer_create")
    return timer


def arm(timer, seconds):
    spec = ctypes.create_string_buffer(struct.pack("llll", 0, 0, 0, int(seconds * 1e9)))
    if libc.timer_settime(timer, 0, spec, None) != 0:
        raise OSError(ctypes.get_errno(), "timer_settime")


timers = {sig: made(sig) for sig in own}
never = made(signal.SIGRTMIN)
open(sys.argv[1], "w").write(str(os.getpid()))
for n, alarm in enumerate([0.06, 0.1, 0.15, 0.22, 0.32, 0.45]):
    signal.setitimer(signal.ITIMER_REAL, alarm)
    for i, timer in enumerate(timers.values()):
        arm(timer, 0.015 * (i + 1))
    print("armed", n, flush=True)
    came = {}
    while not came.keys() >= {signal.SIGALRM, *own}:
        info = signal.sigtimedwait(waited, 20)  # Python takes one that a stop outlasts for the last signal again
        if not info:
            break
        came[info.si_signo] = came.get(info.si_signo, 0) + 1
    while not os.path.exists("%s.%d" % (sys.argv[1], n)):
        time.sleep(0.01)
    time.sleep(0.7)  # longer than any of the timers
    while info := signal.sigtimedwait(waited, 0):
        came[info.si_signo] = came.get(info.si_signo, 0) + 1
    print("round %d: alarm %d, usr1 %d, others %s" % (n, came.get(signal.SIGALRM, 0), came.get(signal.SIGUSR1, 0),
          "once" if all(came.get(sig) == 1 for sig in own) else [came.get(sig, 0) for sig in own]), flush=True)
