# unaccepted.py DIR connects to sockets of its child, which accepts and reads only when DIR/go exists.
import os, socket, sys, time

stream, datagram = sys.argv[1] + "/stream", sys.argv[1] + "/datagram"
ready, child = os.pipe()
if os.fork() == 0:
    server, inbox = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(stream)
    server.listen()
    inbox.bind(datagram)
    os.write(child, b"x")
    while not os.path.exists(sys.argv[1] + "/go"):
        time.sleep(0.01)
    server.accept()[0].send(inbox.recv(100))
    os._exit(0)
os.read(ready, 1)
connection, outbox = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
connection.connect(stream)
outbox.connect(datagram)
print("ready", flush=True)
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.01)
outbox.send(b"came back")
print(connection.recv(100).decode(), flush=True)
os.wait()
