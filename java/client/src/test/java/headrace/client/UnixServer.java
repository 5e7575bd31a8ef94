package headrace.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** For tests: a server on a unix domain socket that serves one connection after the other. */
public final class UnixServer implements AutoCloseable {
    /** Serves one connection, which is closed when it returns or throws. */
    public interface Script {
        void serve(InputStream in, OutputStream out) throws Exception;
    }

    private static final Pattern LENGTH = Pattern.compile("\r\nContent-Length: ([0-9]+)\r\n");

    private final Path socket;
    private final ServerSocketChannel listener;
    private final Thread thread;

    public UnixServer(Path socket, Script script) throws IOException {
        this.socket = socket;
        listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(socket));
        thread = new Thread(() -> serve(script), "unix server");
        thread.start();
    }

    /** A server that answers a request, head and body, as the function says. */
    public static UnixServer answering(Path socket, UnaryOperator<String> answer) throws IOException {
        return new UnixServer(socket, (in, out) ->
            out.write(answer.apply(readRequest(in)).getBytes(StandardCharsets.UTF_8)));
    }

    /** An answer as the daemon gives it. */
    public static String http(String status, String json) {
        return "HTTP/1.0 " + status + "\r\nContent-Type: application/json\r\nContent-Length: "
            + json.getBytes(StandardCharsets.UTF_8).length + "\r\n\r\n" + json;
    }

    static String readRequest(InputStream in) throws IOException {
        ByteArrayOutputStream head = new ByteArrayOutputStream();
        while (!head.toString(StandardCharsets.UTF_8).endsWith("\r\n\r\n")) {
            int b = in.read();
            if (b < 0) {
                throw new IOException("the request ends in its head: " + head);
            }
            head.write(b);
        }
        Matcher length = LENGTH.matcher(head.toString(StandardCharsets.UTF_8));
        if (!length.find()) {
            throw new IOException("the request has no length: " + head);
        }
        head.write(in.readNBytes(Integer.parseInt(length.group(1))));
        return head.toString(StandardCharsets.UTF_8);
    }

    private void serve(Script script) {
        while (listener.isOpen()) {
            try (SocketChannel connection = listener.accept()) {
                script.serve(Channels.newInputStream(connection), Channels.newOutputStream(connection));
            } catch (Exception e) {
                // The client has gone, or the server is being closed.
                continue;
            }
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        Files.delete(socket);
        thread.interrupt();
        try {
            thread.join(10_000);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
