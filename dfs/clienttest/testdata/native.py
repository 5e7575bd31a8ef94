"""Does with hdfs-native what its users do, on the file system at an address."""
import hashlib, os, sys
from hdfs_native import Client

fs = Client(sys.argv[1], {"dfs.replication": "1"})
fs.mkdirs("/n/a/b", create_parent=True)
data = os.urandom(5_000_001)
with fs.create("/n/f") as w:
    w.write(data)
with fs.read("/n/f") as r:
    assert r.read() == data
assert fs.rename("/n/f", "/n/g") is None
assert sorted(f.path for f in fs.list_status("/n")) == ["/n/a", "/n/g"]
with fs.append("/n/g") as w:
    w.write(b"more")
assert fs.get_file_info("/n/g").length == 5_000_005
with fs.read("/n/g") as r:
    r.seek(4_999_999)
    assert r.read(100) == data[-2:] + b"more"
fs.set_permission("/n/g", 0o640)
fs.set_times("/n/g", 1000, 2000)
i = fs.get_file_info("/n/g")
assert (i.permission, i.modification_time, i.access_time) == (0o640, 1000, 2000), i
assert fs.get_content_summary("/n").file_count == 1
assert fs.delete("/n/a", recursive=True)
try:
    fs.read("/nothing")
    assert False
except FileNotFoundError:
    pass
assert fs.delete("/n", recursive=True)

import fsspec

with fsspec.open(sys.argv[1] + "/fsspec", "wb") as w:
    w.write(data)
with fsspec.open(sys.argv[1] + "/fsspec", "rb") as r:
    assert r.read() == data
