package headrace.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.hadoop.mapreduce.v2.api.records.JobId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskType;
import org.apache.hadoop.mapreduce.v2.util.MRBuilderUtils;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.junit.jupiter.api.Test;

/** With lists as MapReduce has them, and its way to take maps from them. */
class MapOrderTest {
    private static final JobId JOB = MRBuilderUtils.newJobId(ApplicationId.newInstance(1, 1), 1);

    private final Map<String, LinkedList<TaskAttemptId>> byHost = new HashMap<>();
    private final Map<String, LinkedList<TaskAttemptId>> byRack = new HashMap<>();
    private final LinkedHashMap<TaskAttemptId, Object> waiting = new LinkedHashMap<>();
    private final LinkedList<TaskAttemptId> failed = new LinkedList<>();
    private final Map<String, Integer> ranks = new HashMap<>();

    static TaskAttemptId map(int number) {
        return MRBuilderUtils.newTaskAttemptId(MRBuilderUtils.newTaskId(JOB, number, TaskType.MAP), 0);
    }

    private static String rackOf(String host) {
        return "/" + host.charAt(0);
    }

    private void add(int number, String... hosts) {
        TaskAttemptId map = map(number);
        waiting.put(map, number);
        for (String host : hosts) {
            byHost.computeIfAbsent(host, h -> new LinkedList<>()).add(map);
            LinkedList<TaskAttemptId> rack = byRack.computeIfAbsent(rackOf(host), r -> new LinkedList<>());
            if (!rack.contains(map)) {
                rack.add(map);
            }
        }
    }

    private void rank(int number, String host, int rank) {
        ranks.put(number + "@" + host, rank);
    }

    private int rank(TaskAttemptId map, String host) {
        return ranks.getOrDefault(map.getTaskId().getId() + "@" + host, 0);
    }

    private void arrange(List<MapOrder.Place> places) {
        new MapOrder(byHost, byRack, waiting, failed, MapOrderTest::rackOf).arrange(places, host -> map -> rank(map, host));
    }

    private static List<MapOrder.Place> on(String... hosts) {
        List<MapOrder.Place> places = new ArrayList<>();
        for (String host : hosts) {
            places.add(new MapOrder.Place(host, true));
        }
        return places;
    }

    /** As RMContainerAllocator.assignMapsWithLocality takes them. Returns which place has got which map; -1: none. */
    private List<Integer> take(List<MapOrder.Place> places) {
        Map<Integer, TaskAttemptId> got = new HashMap<>();
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < places.size(); i++) {
                MapOrder.Place place = places.get(i);
                if (got.containsKey(i) || waiting.isEmpty() || round < 2 && !place.local()) {
                    continue;
                }
                TaskAttemptId map = null;
                if (round == 2) {
                    map = waiting.keySet().iterator().next();
                } else {
                    LinkedList<TaskAttemptId> list = round == 0 ? byHost.get(place.host()) : byRack.get(rackOf(place.host()));
                    while (map == null && list != null && !list.isEmpty()) {
                        TaskAttemptId first = list.removeFirst();
                        map = waiting.containsKey(first) ? first : null;
                    }
                }
                if (map != null) {
                    waiting.remove(map);
                    got.put(i, map);
                }
            }
        }
        return IntStream.range(0, places.size())
            .mapToObj(i -> got.containsKey(i) ? got.get(i).getTaskId().getId() : -1).toList();
    }

    /** What it is to come to: in each of the three rounds each place takes the best that is left, and of equal ones the first. */
    private List<Integer> oracle(List<MapOrder.Place> places) {
        Set<TaskAttemptId> left = new HashSet<>(waiting.keySet());
        Integer[] got = new Integer[places.size()];
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < got.length; i++) {
                MapOrder.Place place = places.get(i);
                if (got[i] != null || round < 2 && !place.local()) {
                    continue;
                }
                Collection<TaskAttemptId> list = round == 0 ? byHost.get(place.host())
                    : round == 1 ? byRack.get(rackOf(place.host())) : waiting.keySet();
                TaskAttemptId best = null;
                for (TaskAttemptId map : list == null ? List.<TaskAttemptId>of() : list) {
                    if (left.contains(map) && !(round == 2 && failed.contains(map))
                            && (best == null || rank(map, place.host()) > rank(best, place.host()))) {
                        best = map;
                    }
                }
                if (best == null && round == 2) { // the stock order
                    best = waiting.keySet().stream().filter(left::contains).findFirst().orElse(null);
                }
                if (best != null) {
                    left.remove(best);
                    got[i] = best.getTaskId().getId();
                }
            }
        }
        return Arrays.stream(got).map(n -> n == null ? -1 : n).toList();
    }

    @Test
    void firstWhatIsInMemoryHereThenNowhereThenElsewhere() {
        for (int i = 0; i < 6; i++) {
            add(i, "a1", "a2");
        }
        rank(0, "a1", -16);
        rank(3, "a1", 16);
        rank(4, "a1", 9);
        List<MapOrder.Place> places = on("a1", "a1", "a1", "a1", "a1", "a1");
        arrange(places);
        assertEquals(List.of(3, 4, 1, 2, 5, 0), take(places));
    }

    @Test
    void aRackAndAllOthersLeaveWhatIsInMemoryElsewhere() {
        add(0, "a1");
        add(1, "a1");
        add(2, "b1");
        add(3);
        for (String host : List.of("a2", "c1")) {
            rank(0, host, -16);
            rank(2, host, -16);
        }
        List<MapOrder.Place> places = on("a2", "c1", "c1");
        arrange(places);
        assertEquals(List.of(1, 3, 0), take(places));
    }

    @Test
    void whatHasFailedKeepsItsPlace() {
        add(0);
        add(1);
        failed.add(map(1));
        rank(0, "a1", -16);
        rank(1, "a1", 16);
        List<MapOrder.Place> places = on("a1");
        arrange(places);
        assertEquals(List.of(0), take(places));
    }

    @Test
    void withoutDifferencesNothingIsMoved() {
        for (int i = 0; i < 5; i++) {
            add(i, "a1", "a2");
        }
        waiting.remove(map(0));
        List<TaskAttemptId> rack = List.copyOf(byRack.get("/a"));
        List<TaskAttemptId> all = List.copyOf(waiting.keySet());
        arrange(on("a1", "a2"));
        assertEquals(List.of(map(1), map(2), map(3), map(4)), byHost.get("a1"));
        assertEquals(Set.of(map(1), map(2), map(3), map(4)), Set.copyOf(byHost.get("a2")));
        assertEquals(rack, byRack.get("/a"));
        assertEquals(all, List.copyOf(waiting.keySet()));
    }

    @Test
    void againstAnOracle() {
        for (int seed = 0; seed < 3000; seed++) {
            Random random = new Random(seed);
            byHost.clear();
            byRack.clear();
            waiting.clear();
            failed.clear();
            ranks.clear();
            String[] hosts = {"a1", "a2", "b1", "b2", "c1"};
            int maps = random.nextInt(15);
            for (int i = 0; i < maps; i++) {
                List<String> all = new ArrayList<>(List.of(hosts));
                Collections.shuffle(all, random);
                add(i, all.subList(0, random.nextInt(3)).toArray(String[]::new));
                for (String host : hosts) {
                    rank(i, host, random.nextInt(3) == 0 ? random.nextInt(MapOrder.LEAST, MapOrder.MOST + 1) : 0);
                }
                if (random.nextInt(8) == 0) {
                    failed.add(map(i));
                }
                if (random.nextInt(6) == 0) {
                    waiting.remove(map(i)); // given away meanwhile
                }
            }
            for (int heartbeat = 0; heartbeat < 3; heartbeat++) {
                List<MapOrder.Place> places = new ArrayList<>();
                for (int n = random.nextInt(6); n > 0; n--) {
                    places.add(new MapOrder.Place(hosts[random.nextInt(hosts.length)], random.nextInt(6) > 0));
                }
                Set<TaskAttemptId> before = new HashSet<>(waiting.keySet());
                List<Integer> want = oracle(places);
                arrange(places);
                assertEquals(before, waiting.keySet(), "seed " + seed);
                for (Map.Entry<TaskAttemptId, Object> entry : waiting.entrySet()) {
                    assertEquals(entry.getKey().getTaskId().getId(), entry.getValue());
                }
                assertEquals(want, take(places), "seed " + seed);
                assertTrue(byHost.values().stream().allMatch(list -> list.size() == new HashSet<>(list).size()));
            }
        }
    }
}
