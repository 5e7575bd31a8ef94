package headrace.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;

/**
 * An answer of a server to an HTTP/1.0 request: everything up to the end of the connection.
 *
 * @param later the request may be made again a moment later
 */
record HttpAnswer(int status, boolean later, byte[] body) {

    /** @throws IOException when the bytes are no such answer, or not all of it */
    static HttpAnswer parse(byte[] bytes) throws IOException {
        int end = endOfHead(bytes);
        if (end < 0) {
            throw new IOException(bytes.length == 0
                ? "the connection was closed without an answer" : "the answer is not HTTP, or is cut off");
        }
        String[] lines = new String(bytes, 0, end, StandardCharsets.ISO_8859_1).split("\r\n");
        byte[] body = Arrays.copyOfRange(bytes, end + 4, bytes.length);
        return new HttpAnswer(status(lines[0]), header(lines, "retry-after:") != null, whole(body, contentLength(lines)));
    }

    private static int endOfHead(byte[] bytes) {
        for (int i = 0; i + 3 < bytes.length; i++) {
            if (bytes[i] == '\r' && bytes[i + 1] == '\n' && bytes[i + 2] == '\r' && bytes[i + 3] == '\n') {
                return i;
            }
        }
        return -1;
    }

    private static int status(String line) throws IOException {
        String[] words = line.split(" ", 3);
        if (words.length < 2 || !words[0].startsWith("HTTP/1.") || !words[1].matches("[0-9]{3}")) {
            throw new IOException("the answer is not HTTP: it begins with \"" + line + "\"");
        }
        return Integer.parseInt(words[1]);
    }

    /** Returns what follows a name, which is in lower case and has its colon; null: nothing does. */
    private static String header(String[] lines, String name) {
        for (String line : lines) {
            if (line.toLowerCase(Locale.ROOT).startsWith(name)) {
                return line.substring(name.length()).trim();
            }
        }
        return null;
    }

    /** Returns -1 when the head does not say. */
    private static long contentLength(String[] lines) throws IOException {
        String length = header(lines, "content-length:");
        try {
            return length == null ? -1 : Long.parseLong(length);
        } catch (NumberFormatException e) {
            throw new IOException("the answer has a bad length: \"" + length + "\"", e);
        }
    }

    private static byte[] whole(byte[] body, long length) throws IOException {
        if (length >= 0 && length != body.length) {
            throw new IOException("the answer has " + body.length + " bytes instead of " + length);
        }
        return body;
    }
}
