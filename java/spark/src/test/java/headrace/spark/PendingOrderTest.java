package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import headrace.locality.ResidentShares;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class PendingOrderTest {
    /** Against sorting. */
    @Test
    void highestRankThenLowestNumberFromTheFirstComeLastEachOnce() {
        Random random = new Random(1);
        for (int round = 0; round < 2000; round++) {
            int tasks = round % 10 == 0 ? 5000 : 1 + random.nextInt(300);
            int[] ranks = random.ints(tasks, -random.nextInt(17), 1 + random.nextInt(17)).toArray();
            PendingOrder order = new PendingOrder(tasks);
            for (int again = 0; again < 3; again++) {
                int n = random.nextInt(round % 20 == 0 ? 12 : 2 * tasks);
                int[] list = random.ints(n + random.nextInt(3), 0, tasks).toArray();
                int[] rest = Arrays.copyOfRange(list, n, list.length);
                int first = again == 0 ? 0 : random.nextInt(tasks);
                List<Integer> expected = IntStream.of(list).limit(n).distinct().boxed()
                    .sorted(Comparator.comparing((Integer t) -> ranks[t]).thenComparing(t -> t >= first)
                        .thenComparing(Comparator.reverseOrder())).toList();
                int distinct = order.sort(list, n, first, task -> ranks[task]);
                assertEquals(expected, IntStream.of(list).limit(distinct).boxed().toList());
                assertArrayEquals(rest, Arrays.copyOfRange(list, n, list.length));
            }
        }
    }

    @Test
    void whatItDoesNotKnowItLeaves() {
        PendingOrder order = new PendingOrder(70);
        for (int[] list : new int[][] {{3, 70, 1}, {3, -1, 1}, {3, 2, 69}}) {
            int[] before = list.clone();
            assertThrows(IllegalArgumentException.class, () -> order.sort(list, 3, 0, task -> task == 69 ? 17 : 0));
            assertArrayEquals(before, list);
            int[] good = {1, 3};
            order.sort(good, 2, 0, task -> 0); // nothing of what failed is left
            assertArrayEquals(new int[] {3, 1}, good);
        }
    }

    @Test
    void ranksAreThoseOfThePaperWhenAllOrNothingIsInMemory() {
        ResidentShares shares = shares(new double[][] {{1, 0}, {0, 1}, {0, 0}, {1, 1}});
        assertEquals(List.of(16, -16, 0, 16), ranks(shares, 0, true, true));
        assertEquals(List.of(-16, 16, 0, 16), ranks(shares, 1, true, true));
        assertEquals(List.of(-16, -16, 0, -16), ranks(shares, -1, true, true));
        // Where no task can run, nothing is worth waiting for.
        assertEquals(List.of(16, 0, 0, 16), ranks(shares, 0, true, false));
    }

    @Test
    void partsCountByTheirBytes() {
        ResidentShares shares = shares(new double[][] {{.5, .25}, {.25, .5}, {.02, 0}, {0, 1e9}, {.3, .3}});
        assertEquals(List.of(8, -4, 0, -16, 5), ranks(shares, 0, true, true));
        List<String> homes = new ArrayList<>();
        shares.homes((task, machine) -> homes.add(task + "@" + machine));
        assertEquals(List.of("0@0", "1@1", "3@1"), homes);
    }

    private static ResidentShares shares(double[][] parts) {
        ResidentShares.Builder builder = new ResidentShares.Builder(parts.length);
        for (double[] task : parts) {
            for (int machine = 0; machine < task.length; machine++) {
                builder.add(machine, task[machine]);
            }
            builder.next();
        }
        return builder.build(List.of(List.of("h0"), List.of("h1")));
    }

    private static List<Integer> ranks(ResidentShares shares, int here, boolean... useful) {
        return IntStream.range(0, shares.tasks()).mapToObj(task -> shares.rank(task, here, useful)).toList();
    }
}
