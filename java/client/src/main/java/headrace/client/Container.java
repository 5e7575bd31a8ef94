package headrace.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;

/**
 * A container as daemon and manager know it.
 *
 * @param id as its scheduler writes it
 * @param scheduler that decides for it, such as yarn
 * @param state running, suspended, checkpointed, ...
 * @param doing what is being done to it, such as suspending; empty: nothing
 * @param ordered what was ordered and has not begun; empty: nothing
 * @param held a person has suspended it and decides when it goes on
 * @param away nothing is heard of its node; the rest is what was true last
 * @param archived its checkpoint waits where other machines find it
 * @param reason for the state, for people
 */
public record Container(String id, String scheduler, String state, String doing, String ordered, boolean held,
        boolean away, boolean archived, String reason) {

    /** Whether something is ordered or being done, and what comes of it is not known yet. */
    public boolean busy() {
        return !doing.isEmpty() || !ordered.isEmpty();
    }

    static List<Container> listOf(JsonNode answer) {
        List<Container> containers = new ArrayList<>();
        answer.path("containers").forEach(c -> containers.add(of(c)));
        return containers;
    }

    private static Container of(JsonNode c) {
        return new Container(c.path("id").asText(), c.path("hosting").path("scheduler").asText("yarn"),
            c.path("state").asText(), c.path("doing").asText(), c.path("ordered").asText(), c.path("held").asBoolean(),
            c.path("away").asBoolean(), c.path("archived").asBoolean(), c.path("reason").asText());
    }
}
