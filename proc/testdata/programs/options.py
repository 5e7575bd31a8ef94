# options.py DIR sets every socket option that it may to another value than it had, prints "ready", and when DIR/go
# exists prints for each "kept", "lost", "changed" (though it could not be set) or "absent" (not possible here).
import ctypes, os, socket, struct, sys, time

SOCKET, IP, TCP, UDP, IPV6, NETLINK = 1, 0, 6, 17, 41, 270
padded = b"\0\0\1\4\0\0\0\0"  # an extension header of IPv6 with nothing in it
routed = b"\0\2\4\0\0\0\0\0" + socket.inet_pton(socket.AF_INET6, "::1")
# name: level, number, values to be tried in turn
options = {
    "SO_TIMESTAMPING": (SOCKET, 37, 0x18), "SO_TIMESTAMPING_NEW": (SOCKET, 65, 0x18), "SO_TIMESTAMP": (SOCKET, 29, 1),
    "SO_TIMESTAMPNS": (SOCKET, 35, 1), "SO_TIMESTAMP_NEW": (SOCKET, 63, 1), "SO_TIMESTAMPNS_NEW": (SOCKET, 64, 1),
    "SO_TXTIME": (SOCKET, 61, struct.pack("iI", 11, 2), struct.pack("iI", 1, 2)), "SO_RXQ_OVFL": (SOCKET, 40, 1), "SO_PEEK_OFF": (SOCKET, 42, 5),
    "SO_SELECT_ERR_QUEUE": (SOCKET, 45, 1), "SO_BUSY_POLL": (SOCKET, 46, 50), "SO_PREFER_BUSY_POLL": (SOCKET, 69, 1), "SO_INCOMING_CPU": (SOCKET, 49, 1),
    "SO_ZEROCOPY": (SOCKET, 60, 1), "SO_MAX_PACING_RATE": (SOCKET, 47, struct.pack("Q", 5 << 32)), "SO_TXREHASH": (SOCKET, 74, 0),
    "SO_RESERVE_MEM": (SOCKET, 73, 4096), "SO_RCVMARK": (SOCKET, 75, 1), "SO_RCVPRIORITY": (SOCKET, 82, 1), "SO_PASSPIDFD": (SOCKET, 76, 1),
    "SO_PASSRIGHTS": (SOCKET, 83, 0), "SO_DEBUG": (SOCKET, 1, 1),
    "IP_TOS": (IP, 1, 0x48), "SO_PRIORITY": (SOCKET, 12, 7, 3), "SO_MARK": (SOCKET, 36, 77), "IP_TTL": (IP, 2, 77), "IP_OPTIONS": (IP, 4, b"\1\1\1\1"),
    "IP_RECVOPTS": (IP, 6, 1), "IP_RETOPTS": (IP, 7, 1), "IP_PKTINFO": (IP, 8, 1), "IP_MTU_DISCOVER": (IP, 10, 3), "IP_RECVERR": (IP, 11, 1),
    "IP_RECVERR_RFC4884": (IP, 26, 1), "IP_RECVTTL": (IP, 12, 1), "IP_RECVTOS": (IP, 13, 1), "IP_PASSSEC": (IP, 18, 1), "IP_TRANSPARENT": (IP, 19, 1),
    "IP_RECVORIGDSTADDR": (IP, 20, 1), "IP_MINTTL": (IP, 21, 3), "IP_CHECKSUM": (IP, 23, 1), "IP_BIND_ADDRESS_NO_PORT": (IP, 24, 1),
    "IP_RECVFRAGSIZE": (IP, 25, 1), "IP_LOCAL_PORT_RANGE": (IP, 51, struct.pack("HH", 40000, 41000)), "IP_UNICAST_IF": (IP, 50, struct.pack("!i", 1)),
    "IP_MULTICAST_IF": (IP, 32, b"\x7f\0\0\1"), "IP_MULTICAST_TTL": (IP, 33, 7), "IP_MULTICAST_LOOP": (IP, 34, 0), "IP_MULTICAST_ALL": (IP, 49, 0),
    "IPV6_CHECKSUM": (IPV6, 7, 2), "IPV6_2292PKTINFO": (IPV6, 2, 1), "IPV6_2292HOPOPTS": (IPV6, 3, 1), "IPV6_2292DSTOPTS": (IPV6, 4, 1),
    "IPV6_2292RTHDR": (IPV6, 5, 1), "IPV6_2292HOPLIMIT": (IPV6, 8, 1), "IPV6_FLOWINFO": (IPV6, 11, 1), "IPV6_FLOWINFO_SEND": (IPV6, 33, 1),
    "IPV6_UNICAST_HOPS": (IPV6, 16, 9), "IPV6_UNICAST_IF": (IPV6, 76, struct.pack("!i", 1)), "IPV6_MULTICAST_IF": (IPV6, 17, 1),
    "IPV6_MULTICAST_HOPS": (IPV6, 18, 7), "IPV6_MULTICAST_LOOP": (IPV6, 19, 0), "IPV6_MULTICAST_ALL": (IPV6, 29, 0), "IPV6_MTU_DISCOVER": (IPV6, 23, 3),
    "IPV6_RECVERR": (IPV6, 25, 1), "IPV6_RECVERR_RFC4884": (IPV6, 31, 1), "IPV6_RECVHOPLIMIT": (IPV6, 51, 1), "IPV6_RECVHOPOPTS": (IPV6, 53, 1),
    "IPV6_RECVRTHDR": (IPV6, 56, 1), "IPV6_RECVDSTOPTS": (IPV6, 58, 1), "IPV6_RECVPATHMTU": (IPV6, 60, 1), "IPV6_RECVTCLASS": (IPV6, 66, 1),
    "IPV6_RECVORIGDSTADDR": (IPV6, 74, 1), "IPV6_RECVFRAGSIZE": (IPV6, 77, 1), "IPV6_HOPOPTS": (IPV6, 54, padded), "IPV6_RTHDR": (IPV6, 57, routed),
    "IPV6_RTHDRDSTOPTS": (IPV6, 55, padded), "IPV6_DSTOPTS": (IPV6, 59, padded), "IPV6_DONTFRAG": (IPV6, 62, 1), "IPV6_TCLASS": (IPV6, 67, 0x28),
    "IPV6_AUTOFLOWLABEL": (IPV6, 70, 0), "IPV6_ADDR_PREFERENCES": (IPV6, 72, 2), "IPV6_MINHOPCOUNT": (IPV6, 73, 3), "IPV6_TRANSPARENT": (IPV6, 75, 1),
    "TCP_MAXSEG": (TCP, 2, 999), "TCP_SYNCNT": (TCP, 7, 3), "TCP_LINGER2": (TCP, 8, 5), "TCP_DEFER_ACCEPT": (TCP, 9, 7), "TCP_WINDOW_CLAMP": (TCP, 10, 30000),
    "TCP_CONGESTION": (TCP, 13, b"reno", b"cubic"), "TCP_THIN_LINEAR_TIMEOUTS": (TCP, 16, 1), "TCP_USER_TIMEOUT": (TCP, 18, 500000),
    "TCP_FASTOPEN": (TCP, 23, 5), "TCP_FASTOPEN_KEY": (TCP, 33, b"0123456789abcdef"), "TCP_FASTOPEN_CONNECT": (TCP, 30, 1),
    "TCP_FASTOPEN_NO_COOKIE": (TCP, 34, 1), "TCP_NOTSENT_LOWAT": (TCP, 25, 9999), "TCP_SAVE_SYN": (TCP, 27, 1), "TCP_INQ": (TCP, 36, 1),
    "TCP_TX_DELAY": (TCP, 37, 1000), "TCP_RTO_MAX_MS": (TCP, 44, 9000), "TCP_RTO_MIN_US": (TCP, 45, 150000), "TCP_DELACK_MAX_US": (TCP, 46, 30000),
    "UDP_NO_CHECK6_TX": (UDP, 101, 1), "UDP_NO_CHECK6_RX": (UDP, 102, 1), "UDP_SEGMENT": (UDP, 103, 500), "UDP_GRO": (UDP, 104, 1), "UDP_ENCAP": (UDP, 100, 2),
    "NETLINK_PKTINFO": (NETLINK, 3, 1), "NETLINK_BROADCAST_ERROR": (NETLINK, 4, 1), "NETLINK_NO_ENOBUFS": (NETLINK, 5, 1),
    "NETLINK_LISTEN_ALL_NSID": (NETLINK, 8, 1), "NETLINK_CAP_ACK": (NETLINK, 10, 1), "NETLINK_EXT_ACK": (NETLINK, 11, 1), "NETLINK_GET_STRICT_CHK": (NETLINK, 12, 1),
    "SO_LOCK_FILTER": (SOCKET, 44, 1),
}
# Of connections these change by themselves, or are of no use.
changing = {"SO_INCOMING_CPU", "TCP_WINDOW_CLAMP", "TCP_MAXSEG", "TCP_FASTOPEN_KEY", "IP_MULTICAST_TTL", "IPV6_MULTICAST_HOPS", "IPV6_MULTICAST_IF"}


def get(s, name):
    level, number, *_ = options[name]
    try:
        return s.getsockopt(level, number, 1024 if name.startswith("IPV6_") and level == IPV6 and number in (54, 55, 57, 59) else 40)
    except OSError:
        return None


def set_(s, name):
    level, number, *values = options[name]
    for v in values:
        try:
            s.setsockopt(level, number, v)
            return
        except OSError:
            pass


def pair(family, address):
    listener = socket.socket(family)
    listener.bind((address, 0))
    listener.listen(7)
    client = socket.create_connection(listener.getsockname()[:2])
    return listener, client, listener.accept()[0]


sockets = {}
for family, address, name in (socket.AF_INET, "127.0.0.1", "4"), (socket.AF_INET6, "::1", "6"):
    listener, client, server = pair(family, address)
    bound, connected = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    bound.bind((address, 0))
    connected.connect(bound.getsockname())
    sockets |= {"TCP" + name: socket.socket(family), "listening TCP" + name: listener, "client of TCP" + name: client, "server of TCP" + name: server,
                "UDP" + name: socket.socket(family, socket.SOCK_DGRAM), "bound UDP" + name: bound, "connected UDP" + name: connected}
    for kind in "SO_TIMESTAMP", "SO_TIMESTAMPNS", "SO_TIMESTAMP_NEW", "SO_TIMESTAMPNS_NEW", "SO_TIMESTAMPING", "SO_TIMESTAMPING_NEW":
        sockets[kind + " of UDP" + name] = socket.socket(family, socket.SOCK_DGRAM)
a, b = socket.socketpair()
c, d = socket.socketpair(type=socket.SOCK_DGRAM)
sockets |= {"unix stream": a, "unix datagrams": c, "untouched": socket.socket(), "untouched UDP": socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)}
if os.getuid() == 0:
    sockets |= {"netlink": socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0), "raw": socket.socket(socket.AF_INET6, socket.SOCK_RAW, 200)}
accept_all = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFFFFFF))
sockets["bound UDP4"].setsockopt(SOCKET, 26, struct.pack("HP", 1, ctypes.addressof(accept_all)))  # a filter, to be locked

before = {s: {n: get(sockets[s], n) for n in options} for s in sockets}
for s in sockets:
    one = s.split()[0]
    for name in options:
        if one == "untouched":
            continue
        if one in options and name != one or one not in options and name.startswith("SO_TIMESTAMP"):
            continue
        if name.startswith("IPV6_RTHDR") and " of TCP" in s:
            continue  # nothing would arrive any more
        set_(sockets[s], name)
was = {s: {n: get(sockets[s], n) for n in options} for s in sockets}
print("ready", flush=True)
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.01)
for s in sockets:
    for name in options:
        if name in changing and s.split()[0] in ("client", "server", "connected"):
            continue
        now, then = get(sockets[s], name), was[s][name]
        if then == before[s][name]:
            what = "absent" if now == then else "changed"
        else:
            what = "kept" if now == then else "lost"
        if s.startswith("untouched") and what == "absent":
            continue
        print(s + ", " + name + ":", what, then, now, flush=True)
for name in "4", "6":
    sockets["client of TCP" + name].sendall(b"x")
    sockets["server of TCP" + name].recv(1)
try:
    sockets["bound UDP4"].setsockopt(SOCKET, 27, 0)
    print("locked filter: lost", flush=True)
except PermissionError:
    print("locked filter: kept", flush=True)
