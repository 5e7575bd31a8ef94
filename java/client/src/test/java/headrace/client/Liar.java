package headrace.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;

/**
 * For tests: what stands in for the daemon of a machine, and tells applications the truth about what is in memory until it
 * is told to lie.
 */
public final class Liar implements UnixServer.Script {
    /** An answer, or none, to a request that was not read yet. The connection is closed afterwards. */
    private interface Lie {
        void tell(InputStream in, OutputStream out) throws IOException, InterruptedException;
    }

    private static final int LONG = NodeSocket.LIMIT - 1000;
    private static final int BLOCKS = 50;

    private final UnaryOperator<String> truth;
    private final Map<String, Lie> lies = new LinkedHashMap<>();
    private final AtomicInteger told = new AtomicInteger();
    private volatile Lie lie;
    private long version = 1L << 40;

    /** @param truth answers requests, head and body */
    public Liar(UnaryOperator<String> truth) {
        this.truth = truth;
        lies.put("hosts that do not exist", says(() -> everything("[{\"hosts\":[\"x\",\"y\"]},{\"hosts\":[]}]", "[0,1]", "[\"100\",\"100\"]", "100")));
        lies.put("names that are no names", says(() -> everything("[{\"hosts\":[null,7,{},\"" + "h".repeat(100_000) + "\"]},3,null]", "[0,1,2]", "[1,1,1]", "100")));
        lies.put("negative bytes", says(() -> everything("[{\"hosts\":[\"x\"]}]", "[0]", "[-100]", "100")));
        lies.put("a negative size", says(() -> everything("[{\"hosts\":[\"x\"]}]", "[0]", "[0]", "-100")));
        lies.put("more than there is", says(() -> everything("[{\"hosts\":[\"127.0.0.2\",\"a\"]}]", "[0]", "[101]", "100")));
        lies.put("sizes beyond the file", says(() -> everything("[{\"hosts\":[\"127.0.0.2\",\"a\"]}]", "[0]",
            "[\"" + Long.MAX_VALUE + "\"]", "\"" + Long.MAX_VALUE + "\"")));
        lies.put("no numbers", says(() -> everything("[{\"hosts\":[\"x\"]}]", "[\"0\"]", "[\"1e999\"]", "true")));
        lies.put("machines that are not there", says(() -> everything("[{\"hosts\":[\"x\"]}]", "[7,-1]", "[1,1]", "100")));
        lies.put("the same machine again and again", says(() -> everything("[{\"hosts\":[\"127.0.0.2\",\"a\"]}]",
            "[" + "0,".repeat(99) + "0]", "[" + "100,".repeat(99) + "100]", "100")));
        lies.put("more machines than there are", says(() -> everything("[{\"hosts\":[\"127.0.0.2\",\"a\"]}]",
            "[" + "0,".repeat(1999) + "0]", "[" + "100,".repeat(1999) + "100]", "100")));
        lies.put("all on all machines", says(() -> everything("[{\"hosts\":[\"127.0.0.2\",\"a\"]},{\"hosts\":[\"127.0.0.3\",\"b\"]}]", "[0,1]", "[100,100]", "100")));
        lies.put("here, then there", says(() -> everything(version % 2 == 0 ? "[{\"hosts\":[\"127.0.0.2\",\"a\"]}]" : "[{\"hosts\":[\"127.0.0.3\",\"b\"]}]", "[0]", "[100]", "100")));
        lies.put("blocks of other files", says(this::others));
        lies.put("no version", says(() -> "{\"full\":true}"));
        lies.put("nothing", says(() -> "{}"));
        lies.put("a list", says(() -> "[]"));
        lies.put("no JSON", says(() -> "{\"version\": 7"));
        lies.put("depths", says(() -> "{\"blocks\":" + "[".repeat(200_000)));
        lies.put("random", says(this::random));
        lies.put("more than may be", says(() -> " ".repeat(NodeSocket.LIMIT) + "{}"));
        lies.put("unknown", answers("404 Not Found", "{\"code\":\"not_found\",\"message\":\"register again\"}"));
        lies.put("an error", answers("500 Internal Server Error", "no"));
        lies.put("half a message", (in, out) -> {
            String all = truth(in);
            out.write(all.substring(0, all.length() / 2).getBytes(StandardCharsets.UTF_8));
        });
        lies.put("no HTTP", (in, out) -> out.write("SSH-2.0-OpenSSH_9.6\r\n\r\n".getBytes(StandardCharsets.UTF_8)));
        lies.put("a closed connection", (in, out) -> UnixServer.readRequest(in));
        lies.put("a reset", (in, out) -> in.read());
        lies.put("byte by byte", (in, out) -> {
            for (byte b : truth(in).getBytes(StandardCharsets.UTF_8)) {
                out.write(b);
                silence(100);
            }
        });
        lies.put("silence", (in, out) -> silence(Long.MAX_VALUE));
    }

    public List<String> lies() {
        return List.copyOf(lies.keySet());
    }

    /** Has it lie in a way, as {@link #lies} names it; null: tell the truth again. */
    public synchronized void tell(String which) {
        told.set(0);
        lie = which == null ? null : lies.get(which);
        notifyAll();
    }

    /** How often it has begun to lie since then. */
    public int told() {
        return told.get();
    }

    @Override
    public void serve(InputStream in, OutputStream out) throws Exception {
        Lie now = lie;
        if (now == null) {
            out.write(truth(in).getBytes(StandardCharsets.UTF_8));
            return;
        }
        told.incrementAndGet();
        now.tell(in, out);
    }

    private String truth(InputStream in) throws IOException {
        return truth.apply(UnixServer.readRequest(in));
    }

    /** Says nothing for so long, while this lie is told. */
    private synchronized void silence(long millis) throws InterruptedException {
        long end = millis == Long.MAX_VALUE ? millis : System.nanoTime() / 1_000_000 + millis;
        Lie now = lie;
        long left;
        while (lie == now && (left = end - System.nanoTime() / 1_000_000) > 0) {
            wait(left);
        }
    }

    private interface Body {
        String make();
    }

    private Lie says(Body body) {
        return (in, out) -> {
            UnixServer.readRequest(in);
            out.write(UnixServer.http("200 OK", body.make()).getBytes(StandardCharsets.UTF_8));
        };
    }

    private static Lie answers(String status, String body) {
        return (in, out) -> {
            UnixServer.readRequest(in);
            out.write(UnixServer.http(status, body).getBytes(StandardCharsets.UTF_8));
        };
    }

    /** The same of all blocks. */
    private String everything(String machines, String on, String resident, String bytes) {
        StringBuilder all = head(machines);
        for (int i = 0; i < BLOCKS; i++) {
            all.append(i == 0 ? "" : ",").append("{\"pool\":\"BP-1\",\"number\":\"").append(i).append("\",\"machines\":").append(on)
                .append(",\"resident\":").append(resident).append(",\"bytes\":").append(bytes).append('}');
        }
        return all.append("]}").toString();
    }

    /** So many that the answer is as long as it may be. */
    private String others() {
        StringBuilder all = head("[{\"hosts\":[\"127.0.0.2\",\"a\"]}]");
        for (long i = 1000; all.length() < LONG; i++) {
            all.append(i == 1000 ? "" : ",").append("{\"pool\":\"BP-").append(i % 7).append("\",\"number\":\"").append(-i)
                .append("\",\"machines\":[0],\"resident\":[\"100\"],\"bytes\":\"100\"}");
        }
        return all.append("]}").toString();
    }

    private StringBuilder head(String machines) {
        return new StringBuilder("{\"version\":\"").append(++version).append("\",\"full\":true,\"machines\":").append(machines).append(",\"blocks\":[");
    }

    /** An answer of which some bytes are others. */
    private String random() {
        Random random = new Random(++version);
        StringBuilder all = new StringBuilder(everything("[{\"hosts\":[\"127.0.0.2\",\"a\"]}]", "[0]", "[\"100\"]", "\"100\""));
        for (int i = random.nextInt(5); i >= 0; i--) {
            all.setCharAt(random.nextInt(all.length()), "0123456789-,:[]{}\"xn".charAt(random.nextInt(20)));
        }
        return all.toString();
    }
}
