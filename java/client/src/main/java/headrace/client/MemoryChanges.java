package headrace.client;

import com.fasterxml.jackson.databind.JsonNode;
import headrace.client.BlockCopies.Block;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * An answer about what of an application's blocks is in memory.
 *
 * @param version to be named with the next question
 * @param full what was told before does not count
 * @param blocks where they are in memory now, and nowhere else
 */
record MemoryChanges(long version, boolean full, Map<Block, BlockCopies> blocks) {
    /** What is kept of an answer is bounded by what makes sense: names of a machine, their length, machines with a block. */
    private static final int MOST_NAMES = 16;
    private static final int LONGEST_NAME = 255;
    private static final int MOST_MACHINES = 1000;

    /** @throws IOException when the answer makes no sense */
    static MemoryChanges of(JsonNode answer) throws IOException {
        List<List<String>> machines = new ArrayList<>();
        for (JsonNode machine : answer.path("machines")) {
            List<String> hosts = new ArrayList<>();
            machine.path("hosts").forEach(host -> hosts.add(host.asText()));
            if (hosts.size() > MOST_NAMES || hosts.stream().anyMatch(host -> host.length() > LONGEST_NAME)) {
                throw new IOException("the answer makes no sense: a machine has " + hosts.size() + " names, or a long one");
            }
            machines.add(List.copyOf(hosts));
        }
        Map<Block, BlockCopies> blocks = new LinkedHashMap<>();
        Map<String, String> pools = new LinkedHashMap<>(); // so that equal ones are one object
        for (JsonNode block : answer.path("blocks")) {
            String pool = pools.computeIfAbsent(block.path("pool").asText(), name -> name);
            blocks.put(new Block(pool, block.path("number").asLong()), copies(block, machines));
        }
        return new MemoryChanges(answer.path("version").asLong(), answer.path("full").asBoolean(), blocks);
    }

    private static BlockCopies copies(JsonNode block, List<List<String>> machines) throws IOException {
        JsonNode on = block.path("machines");
        JsonNode parts = block.path("resident");
        if (on.size() > MOST_MACHINES) {
            throw new IOException("the answer makes no sense: a block is on " + on.size() + " machines");
        }
        List<List<String>> where = new ArrayList<>(on.size());
        long[] resident = new long[on.size()];
        long bytes = block.path("bytes").asLong();
        for (int i = 0; i < resident.length; i++) {
            int machine = on.get(i).asInt(-1);
            resident[i] = Math.min(parts.path(i).asLong(-1), bytes); // while a block grows its copies are not of one length
            if (machine < 0 || machine >= machines.size() || resident[i] < 0 || bytes == 0) {
                throw new IOException("the answer makes no sense: " + block);
            }
            where.add(machines.get(machine));
        }
        return new BlockCopies(where, resident, bytes);
    }
}
