"""Does with fsspec what its users do, on the WebHDFS at a host and port."""
import os, sys, urllib.parse
import fsspec

at = urllib.parse.urlparse(sys.argv[1])
fs = fsspec.filesystem("webhdfs", host=at.hostname, port=at.port, user=sys.argv[2])
data = os.urandom(3_000_001)
fs.makedirs("/w/ü +%41")
path = "/w/ü +%41/f"
with fs.open(path, "wb", block_size=1 << 20) as w:  # created, then appended to
    w.write(data)
assert fs.ls("/w/ü +%41", detail=False) == [path], fs.ls("/w/ü +%41")
with fs.open(path, "rb") as r:
    assert r.read() == data
    r.seek(100)
    assert r.read(7) == data[100:107]
assert fs.ukey(path)["algorithm"].startswith("MD5-of-0MD5-of-512CRC32C")
assert fs.content_summary("/w")["length"] == len(data)
fs.mv(path, "/w/g")
fs.chmod("/w/g", "600")
assert fs.info("/w/g")["permission"] == "600"
fs.rm("/w", recursive=True)
assert not fs.exists("/w")
