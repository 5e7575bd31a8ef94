# numpy with its own threads.
import os, time
import numpy as np
r = np.random.default_rng(7)
a = r.integers(0, 100, (400, 400)).astype(np.float64)
b = np.eye(400)
for n in range(1, 26):
    b = np.mod(a @ b, 1009.0)
    print("step", n, int(b.sum()), flush=True)
    time.sleep(0.02)
    while n == 20 and not os.path.exists(os.environ["GO_ON"]): time.sleep(0.01)
