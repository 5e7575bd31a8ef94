package headrace.sparkyarn;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/** Takes orders from standard input, and tells on standard output what has become of them, as JSON, one object a line. */
final class Events {
    static final ObjectMapper JSON = new ObjectMapper();

    /** Carries out an order. */
    interface Work<T> {
        void on(T order) throws Exception;
    }

    private Events() { }

    /**
     * Takes orders from standard input, as JSON, one a line, until there are no more, and ends the process. Tells that
     * one is broken when it fails.
     */
    static <T> void serve(Class<T> kind, Function<T, String> name, Work<T> work) throws IOException {
        tell("", "ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            T order = JSON.readValue(line, kind);
            try {
                work.on(order);
            } catch (Exception | LinkageError e) {
                e.printStackTrace();
                tell(name.apply(order), "broken", "reason", e.toString());
            }
        }
        System.exit(0);
    }

    /** Writes an event of an order with the time and the given names and values, by turns. */
    static void tell(String order, String event, Object... fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("atMs", System.currentTimeMillis());
        line.put("event", event);
        line.put("job", order);
        for (int i = 0; i + 1 < fields.length; i += 2) {
            line.put((String) fields[i], fields[i + 1]);
        }
        try {
            // One call, so that nothing of others gets in between.
            System.out.print(JSON.writeValueAsString(line) + "\n");
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(e);
        }
        System.out.flush();
    }
}
