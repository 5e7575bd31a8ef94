# Threads that pass work on to each other.
import hashlib, os, queue, sys, threading, time
stages = [queue.Queue(2) for _ in range(5)]
def work(i):
    while True:
        item = stages[i].get()
        if item is None:
            stages[i + 1].put(None)
            return
        n, d = item
        for _ in range(2000):
            d = hashlib.sha256(d).digest()
        stages[i + 1].put((n, d))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
def feed():
    for n in range(1, 26):
        stages[0].put((n, b"%d" % n)); time.sleep(0.02)
        while n == 20 and not os.path.exists(os.environ["GO_ON"]): time.sleep(0.01)
    stages[0].put(None)
f = threading.Thread(target=feed); f.start()
while (item := stages[4].get()) is not None:
    print("step", item[0], item[1].hex(), flush=True)
for t in threads: t.join()
print("threads", threading.active_count() - 1)
sys.exit(4)
