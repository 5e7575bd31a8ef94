# tracer.py GO: traces its child, which a signal has stopped, and says what it sees of it when there is the file GO: the signals, and its end.
import ctypes, os, signal, sys, time

TRACEME, CONT = 0, 7
ptrace = ctypes.CDLL(None).ptrace
child = os.fork()
if child == 0:
    signal.signal(signal.SIGUSR2, lambda *_: None)
    ptrace(TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGUSR2)
    os._exit(3)
os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOWAIT)
print("stopped", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
seen = []
while True:
    status = os.waitpid(child, 0)[1]
    if not os.WIFSTOPPED(status):
        break
    seen.append(os.WSTOPSIG(status))
    ptrace(CONT, child, None, ctypes.c_long(seen[-1]))
print(seen, os.waitstatus_to_exitcode(status), flush=True)
