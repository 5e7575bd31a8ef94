package headrace.client;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;

/**
 * The daemon of this machine, behind its unix domain socket. Every call is a connection of its own. Objects of
 * this class may be used by several threads at once.
 */
public final class NodeSocket {
    /** Where the daemon listens unless it was told otherwise. */
    public static final String DEFAULT_PATH = "/var/lib/headrace/headrace.sock";

    /** Bytes of a request, and of an answer, at most. */
    static final int LIMIT = 8 << 20;

    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path socket;
    private final Duration timeout;

    /**
     * @param timeout of a whole call, from connecting to the last byte of the answer; more than zero
     */
    public NodeSocket(Path socket, Duration timeout) {
        if (timeout.isZero() || timeout.isNegative()) {
            throw new IllegalArgumentException("the time-out must be more than zero, not " + timeout);
        }
        this.socket = socket;
        this.timeout = timeout;
    }

    /** Whether somebody listens on a socket. Does not wait. */
    static boolean listens(Path socket) {
        try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            channel.configureBlocking(false); // else it would wait for one who does not accept
            channel.connect(UnixDomainSocketAddress.of(socket));
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    /** An empty message, to be filled for {@link #call}. */
    public static ObjectNode message() {
        return JSON.createObjectNode();
    }

    /**
     * Calls a method of the protocol. In the answer fields with a zero value are missing, and 64-bit integers are
     * strings ({@link JsonNode#asLong()} reads both).
     *
     * @param method service and method, such as {@code headrace.v1.HostService/Prepare}
     * @throws RefusedException when the daemon answers with an error
     * @throws InterruptedIOException when the thread is interrupted; it still is afterwards
     * @throws SilentException when the daemon does not answer in time
     * @throws IOException when the daemon cannot be reached, or answers what is no JSON object
     */
    public JsonNode call(String method, JsonNode request) throws IOException {
        byte[] body = JSON.writeValueAsBytes(request);
        if (body.length > LIMIT) {
            throw new IOException(method + ": the request has " + body.length + " bytes, more than " + LIMIT);
        }
        byte[] answer;
        try {
            answer = Exchange.run(socket, post(method, body), LIMIT, timeout);
        } catch (InterruptedIOException e) {
            throw e;
        } catch (SilentException e) {
            throw new SilentException(failure(e));
        } catch (IOException e) {
            throw new IOException(failure(e), e);
        }
        return result(method, HttpAnswer.parse(answer));
    }

    private String failure(IOException e) {
        return "Headrace's daemon at " + socket + ": " + e.getMessage();
    }

    private static byte[] post(String method, byte[] body) {
        String head = "POST /" + method + " HTTP/1.0\r\n"
            + "Host: headrace\r\n"
            + "Content-Type: application/json\r\n"
            + "Content-Length: " + body.length + "\r\n"
            + "\r\n";
        byte[] ascii = head.getBytes(StandardCharsets.US_ASCII);
        byte[] all = new byte[ascii.length + body.length];
        System.arraycopy(ascii, 0, all, 0, ascii.length);
        System.arraycopy(body, 0, all, ascii.length, body.length);
        return all;
    }

    private static JsonNode result(String method, HttpAnswer answer) throws IOException {
        JsonNode json = null;
        try {
            json = JSON.readTree(answer.body());
        } catch (JsonProcessingException e) {
            if (answer.status() == 200) {
                throw new IOException(method + ": the answer is no JSON: " + e.getOriginalMessage(), e);
            }
        }
        if (answer.status() != 200) {
            String code = json == null ? "" : json.path("code").asText();
            String message = json == null ? "" : json.path("message").asText();
            throw new RefusedException(code, answer.later(), method + ": " + why(answer.status(), code, message));
        }
        if (json == null || !json.isObject()) {
            throw new IOException(method + ": the answer is no JSON object");
        }
        return json;
    }

    private static String why(int status, String code, String message) {
        if (code.isEmpty() && message.isEmpty()) {
            return "HTTP status " + status;
        }
        return message.isEmpty() ? code : code + ": " + message;
    }
}
