# groups.py DIR joins multicast groups in all ways, prints "ready", and when DIR/go exists prints which it has, and what it
# receives of them.
import ctypes, os, socket, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
JOIN, BLOCK, JOIN_SOURCE, FILTER, LO = 42, 43, 46, 48, socket.if_nametoindex("lo")
IP, IPV6 = 0, 41


def storage(address):
    if ":" in address:
        return (struct.pack("=HHI", socket.AF_INET6, 0, 0) + socket.inet_pton(socket.AF_INET6, address)).ljust(128, b"\0")
    return (struct.pack("=HH", socket.AF_INET, 0) + socket.inet_aton(address)).ljust(128, b"\0")


def ask(s, group, option, *sources):
    for source in sources or [None]:
        s.setsockopt(IPV6 if ":" in group else IP, option, struct.pack("=II", LO, 0) + storage(group) + (storage(source) if source else b""))


def state(s, group):
    """Whether the socket has joined, whether it wants all sources but these, and these."""
    room = 30
    buf = ctypes.create_string_buffer(struct.pack("=II", LO, 0) + storage(group) + struct.pack("=II", 0, room), 144 + 128 * room)
    size = ctypes.c_uint(len(buf))
    if libc.getsockopt(s.fileno(), IPV6 if ":" in group else IP, FILTER, buf, ctypes.byref(size)) != 0:
        return os.strerror(ctypes.get_errno())
    mode, n = struct.unpack_from("=II", buf.raw, 136)
    at = 8 if ":" in group else 4
    family = socket.AF_INET6 if ":" in group else socket.AF_INET
    return mode, sorted(socket.inet_ntop(family, buf.raw[144 + 128 * i + at:][:16 if ":" in group else 4]) for i in range(n))


four, six, both, none = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
four.bind(("", 0))
none.bind(("", 0))
none.setsockopt(IP, 49, 0)  # IP_MULTICAST_ALL
ask(four, "239.1.2.3", JOIN)
ask(four, "239.1.2.4", JOIN)
ask(four, "239.1.2.4", BLOCK, *("10.0.0.%d" % i for i in range(1, 10)))
ask(four, "232.1.1.1", JOIN_SOURCE, "10.0.0.1", "127.0.0.1")
many = ["fd00::%x" % i for i in range(1, 21)]
ask(six, "ff05::1234", JOIN)
ask(six, "ff05::1235", JOIN_SOURCE, *many)
ask(six, "ff05::1236", JOIN)
ask(six, "ff05::1236", BLOCK, "fd00::1")
ask(both, "239.1.2.5", JOIN)  # of IPv4, on a socket of IPv6
groups = "239.1.2.3", "239.1.2.4", "239.1.2.5", "232.1.1.1", "ff05::1234", "ff05::1235", "ff05::1236"


def seen():
    return [(name, group, state(s, group)) for name, s in (("four", four), ("six", six), ("both", both), ("none", none)) for group in groups]


def received(group, s):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    for message in group.encode(), b"end":
        sender.sendto(message, (group if message != b"end" else "127.0.0.1", s.getsockname()[1]))
    first = s.recv(100)
    if first != b"end":
        s.recv(100)
    return first.decode()


was = seen()
print("ready", flush=True)
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.01)
for then, now in zip(was, seen()):
    print(*then[:2], "same" if then == now else "was %s, is %s" % (then[2], now[2]), flush=True)
for group in "239.1.2.3", "239.1.2.4", "232.1.1.1", "239.9.9.9":
    print("received", group, received(group, four), flush=True)
print("received by the other", received("239.1.2.3", none), sum(type(x[2]) is tuple for x in was), flush=True)
