package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.yarn.api.records.ContainerId;
import org.junit.jupiter.api.Test;

class SparedMastersTest {
    private final ContainerId one = ContainerId.fromString("container_1_0001_01_000001");
    private final ContainerId two = ContainerId.fromString("container_1_0002_01_000001");
    private final SparedMasters masters = new SparedMasters(1000);

    @Test
    void eachIsPassedOverForAWhileFromItsFirstChoice() {
        assertFalse(masters.passes(one, 0));
        assertTrue(masters.spares(one, 0));
        assertTrue(masters.passes(one, 999));
        assertFalse(masters.passes(two, 999));
        assertTrue(masters.spares(one, 999));
        assertFalse(masters.passes(one, 1000));
        assertFalse(masters.spares(one, 1000));
        assertTrue(masters.spares(two, 1000));
    }

    @Test
    void whatIsNotChosenForLongIsSparedAnew() {
        masters.spares(one, 0);
        assertFalse(masters.spares(one, 2000));
        assertEquals(true, masters.spares(one, 2000 + 5001));
    }
}
