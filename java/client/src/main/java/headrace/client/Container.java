package headrace.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;

/**
 * A container as daemon and manager know it.
 *
 * @param id as its scheduler writes it
 * @param scheduler that decides for it, such as yarn
 * @param doing what is being done to it
 * @param ordered what was ordered and has not begun
 * @param held a person has suspended it and decides when it goes on
 * @param away nothing is heard of its node; the rest is what was true last
 * @param archived its checkpoint waits where other machines find it
 * @param keepsRoom it is suspended, and its scheduler is to go on counting its resources
 * @param reason for the state, for people
 */
public record Container(String id, String scheduler, State state, Operation doing, Command ordered, boolean held,
        boolean away, boolean archived, boolean keepsRoom, String reason) {

    /** Where it is in its life; UNKNOWN: this version does not know. */
    public enum State {
        UNKNOWN, PENDING, RUNNING, SUSPENDED, CHECKPOINTED, DONE, FAILED, KILLED, LOST;

        /** Whether it stays, without running. */
        public boolean aside() {
            return this == SUSPENDED || this == CHECKPOINTED;
        }

        @Override
        public String toString() {
            return Word.of(this);
        }
    }

    /** What can be done to it; UNKNOWN: something that this version does not know. */
    public enum Operation {
        NONE, STARTING, SUSPENDING, RESUMING, CHECKPOINTING, RESTORING, KILLING, ARCHIVING, TAKING_BACK, PAGING_OUT,
        ATTACHING, FORGETTING, DISMISSING_ITS_SUPERVISOR, UNKNOWN;

        /** Whether it does not run meanwhile, and did or will before or after. */
        public boolean moves() {
            return this == SUSPENDING || this == CHECKPOINTING || this == RESUMING || this == RESTORING;
        }
    }

    /** What can be ordered; UNKNOWN: something that this version does not know. */
    public enum Command {
        NONE, SUSPEND, CHECKPOINT, RESUME, ARCHIVE, KILL, FORGET, UNKNOWN
    }

    /** Whether something is ordered or being done, and what comes of it is not known yet. */
    public boolean busy() {
        return doing != Operation.NONE || ordered != Command.NONE;
    }

    static List<Container> listOf(JsonNode answer) {
        List<Container> containers = new ArrayList<>();
        answer.path("containers").forEach(c -> containers.add(of(c)));
        return containers;
    }

    private static Container of(JsonNode c) {
        return new Container(c.path("id").asText(), c.path("hosting").path("scheduler").asText("yarn"),
            Word.read(c, "taskState", "TASK_STATE_", "state", State.UNKNOWN, State.UNKNOWN),
            Word.read(c, "operation", "OPERATION_", "doing", Operation.NONE, Operation.UNKNOWN),
            Word.read(c, "command", "COMMAND_", "ordered", Command.NONE, Command.UNKNOWN), c.path("held").asBoolean(),
            c.path("away").asBoolean(), c.path("archived").asBoolean(), c.path("keepsRoom").asBoolean(),
            c.path("reason").asText());
    }
}
