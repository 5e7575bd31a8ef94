package headrace.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;

/** One connection: all of a request is written, then everything is read until the other end closes. */
final class Exchange implements AutoCloseable {
    private final SocketChannel channel;
    private final Selector selector;
    private final Duration timeout;
    private final long deadline;

    private Exchange(SocketChannel channel, Selector selector, Duration timeout) {
        this.channel = channel;
        this.selector = selector;
        this.timeout = timeout;
        this.deadline = System.nanoTime() + timeout.toNanos();
    }

    /**
     * @param limit bytes of the answer at most
     * @throws SilentException when the time is over
     * @throws InterruptedIOException when the thread is interrupted; it still is afterwards
     */
    static byte[] run(Path socket, byte[] request, int limit, Duration timeout) throws IOException {
        try (Exchange exchange = open(timeout)) {
            exchange.connect(socket);
            exchange.write(ByteBuffer.wrap(request));
            return exchange.read(limit);
        }
    }

    private static Exchange open(Duration timeout) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            channel.configureBlocking(false);
            return new Exchange(channel, Selector.open(), timeout);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    private void connect(Path socket) throws IOException {
        SelectionKey key = channel.register(selector, 0);
        if (channel.connect(UnixDomainSocketAddress.of(socket))) {
            return;
        }
        key.interestOps(SelectionKey.OP_CONNECT);
        while (!channel.finishConnect()) {
            await();
        }
    }

    private void write(ByteBuffer request) throws IOException {
        channel.keyFor(selector).interestOps(SelectionKey.OP_WRITE);
        while (request.hasRemaining()) {
            if (channel.write(request) == 0) {
                await();
            }
        }
    }

    private byte[] read(int limit) throws IOException {
        channel.keyFor(selector).interestOps(SelectionKey.OP_READ);
        ByteArrayOutputStream answer = new ByteArrayOutputStream();
        ByteBuffer buffer = ByteBuffer.allocate(8192);
        while (true) {
            int n = channel.read(buffer);
            if (n < 0) {
                return answer.toByteArray();
            }
            if (n == 0) {
                await();
                continue;
            }
            if (answer.size() + n > limit) {
                throw new IOException("the answer has more than " + limit + " bytes");
            }
            answer.write(buffer.array(), 0, n);
            buffer.clear();
            checkTime();
        }
    }

    private void await() throws IOException {
        checkTime();
        long millis = Math.max(1, (deadline - System.nanoTime()) / 1_000_000);
        selector.select(millis);
        selector.selectedKeys().clear();
        if (Thread.currentThread().isInterrupted()) {
            throw new InterruptedIOException("interrupted while the daemon was asked");
        }
    }

    private void checkTime() throws IOException {
        if (System.nanoTime() - deadline >= 0) {
            throw new SilentException("no answer within " + timeout.toMillis() + " ms");
        }
    }

    @Override
    public void close() throws IOException {
        try {
            channel.close();
        } finally {
            selector.close();
        }
    }
}
