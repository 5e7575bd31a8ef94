package headrace.locality;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class FirstTaskTest {
    /** So that no two of a few read the same blocks at the same time. */
    @Test
    void jobsOneAfterAnotherBeginFarApart() {
        Random random = new Random(1);
        for (int round = 0; round < 1000; round++) {
            int job = random.nextInt();
            int tasks = 16 + random.nextInt(100_000);
            int jobs = 2 + random.nextInt(7);
            int[] firsts = IntStream.range(0, jobs).map(i -> FirstTask.of(job + i, tasks)).sorted().toArray();
            for (int i = 0; i < jobs; i++) {
                int gap = i > 0 ? firsts[i] - firsts[i - 1] : firsts[0] + tasks - firsts[jobs - 1];
                assertTrue(gap >= tasks / (3 * jobs), jobs + " of " + tasks + " from " + job + ": " + Arrays.toString(firsts));
            }
        }
        assertEquals(0, FirstTask.of(0, 64));
        assertEquals(0, FirstTask.of(-1, 0));
        assertEquals(0, FirstTask.of(-1, 1));
    }
}
