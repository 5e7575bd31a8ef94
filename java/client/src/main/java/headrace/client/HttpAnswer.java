package headrace.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;

/** An answer of a server to an HTTP/1.0 request: everything up to the end of the connection. */
record HttpAnswer(int status, byte[] body) {

    /** @throws IOException when the bytes are no such answer, or not all of it */
    static HttpAnswer parse(byte[] bytes) throws IOException {
        int end = endOfHead(bytes);
        if (end < 0) {
            throw new IOException(bytes.length == 0
                ? "the connection was closed without an answer" : "the answer is not HTTP, or is cut off");
        }
        String[] lines = new String(bytes, 0, end, StandardCharsets.ISO_8859_1).split("\r\n");
        byte[] body = Arrays.copyOfRange(bytes, end + 4, bytes.length);
        return new HttpAnswer(status(lines[0]), whole(body, contentLength(lines)));
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

    /** Returns -1 when the head does not say. */
    private static long contentLength(String[] lines) throws IOException {
        for (String line : lines) {
            if (line.toLowerCase(Locale.ROOT).startsWith("content-length:")) {
                try {
                    return Long.parseLong(line.substring("content-length:".length()).trim());
                } catch (NumberFormatException e) {
                    throw new IOException("the answer has a bad length: \"" + line + "\"", e);
                }
            }
        }
        return -1;
    }

    private static byte[] whole(byte[] body, long length) throws IOException {
        if (length >= 0 && length != body.length) {
            throw new IOException("the answer has " + body.length + " bytes instead of " + length);
        }
        return body;
    }
}
