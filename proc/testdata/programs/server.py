# A TCP server that listens, and a client whose connection stays open.
import os, socket, sys, time
srv = socket.socket(); srv.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
srv.bind(("127.0.0.1", 0)); srv.listen()
addr = srv.getsockname()
if os.fork() == 0:
    c, _ = srv.accept(); n = 0
    while (b := c.recv(100)):
        n += len(b); c.sendall(b.upper() + b" %d" % n)
    c.close()
    c, _ = srv.accept()  # a connection made after it all
    c.sendall(b"again"); c.close()
    os._exit(0)
c = socket.create_connection(addr)
for n in range(1, 26):
    c.sendall(b"step %d" % n)
    print("step", n, c.recv(100).decode(), flush=True)
    time.sleep(0.02)
    while n == 20 and not os.path.exists(os.environ["GO_ON"]): time.sleep(0.01)
c.close()
c = socket.create_connection(addr); print(c.recv(100).decode()); c.close()
print("child", os.wait()[1])
