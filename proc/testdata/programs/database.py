# sqlite with a write-ahead log, locks held while it waits.
import os, sqlite3, sys, time
path = os.path.join(sys.argv[1], "db")
db = sqlite3.connect(path, isolation_level=None)
db.execute("pragma journal_mode=wal")
db.execute("create table t (n integer primary key, x text)")
for n in range(1, 26):
    db.execute("begin immediate")
    db.execute("insert into t values (?, ?)", (n, "x" * n * 100))
    time.sleep(0.02)
    while n == 20 and not os.path.exists(os.environ["GO_ON"]): time.sleep(0.01)
    db.execute("commit")
    print("step", n, db.execute("select sum(length(x)) from t").fetchone()[0], flush=True)
print(db.execute("pragma integrity_check").fetchone()[0])
