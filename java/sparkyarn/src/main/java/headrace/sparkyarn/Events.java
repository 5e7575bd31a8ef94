package headrace.sparkyarn;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;

/** Tells on standard output what has become of orders, as JSON, one object a line. */
final class Events {
    static final ObjectMapper JSON = new ObjectMapper();

    private Events() { }

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
