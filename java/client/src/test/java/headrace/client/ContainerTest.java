package headrace.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import org.junit.jupiter.api.Test;

class ContainerTest {
    private static Container of(String fields) throws Exception {
        return Container.listOf(new ObjectMapper().readTree("{\"containers\": [{\"id\": \"c\"" + fields + "}]}")).get(0);
    }

    @Test
    void namesOfTheVersionBeforeMeanTheSame() throws Exception {
        List<Container> all = List.of(
            of(", \"state\": \"suspended\", \"doing\": \"paging out\", \"ordered\": \"resume\""),
            of(", \"taskState\": \"TASK_STATE_SUSPENDED\", \"operation\": \"OPERATION_PAGING_OUT\","
                + " \"command\": \"COMMAND_RESUME\""));
        for (Container c : all) {
            assertEquals(Container.State.SUSPENDED, c.state());
            assertEquals(Container.Operation.PAGING_OUT, c.doing());
            assertEquals(Container.Command.RESUME, c.ordered());
            assertEquals("suspended", c.state().toString());
        }
    }

    @Test
    void itIsBusyWithWhatANewerVersionDoes() throws Exception {
        assertEquals(false, of("").busy());
        assertEquals(false, of(", \"state\": \"asleep\"").busy());
        assertEquals(true, of(", \"doing\": \"dreaming\"").busy());
        assertEquals(true, of(", \"operation\": 99").busy());
        assertEquals(true, of(", \"command\": \"COMMAND_DREAM\"").busy());
    }
}
