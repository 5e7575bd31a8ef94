package headrace.mapreduce;

import headrace.locality.ResidentShares;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.ToIntFunction;
import java.util.function.UnaryOperator;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;

/**
 * Decides which maps get the containers that have just come (quartet, section 4.2), and moves these to the front of the
 * lists from which MapReduce takes them: it takes the first one of a container's host, else of its rack, else of all.
 * Nothing else is moved, and nothing is taken out but what MapReduce would pass over. Not safe for use by several threads.
 */
final class MapOrder {
    /**
     * A container that a map may get.
     *
     * @param local whether MapReduce looks for maps of its host and rack before others
     */
    record Place(String host, boolean local) { }

    /** Bounds of {@link Ranks}: two for each rank of {@link ResidentShares}, for those with which the job begins and the others. */
    static final int LEAST = -2 * ResidentShares.WHOLE;
    static final int MOST = 2 * ResidentShares.WHOLE + 1;

    /** How early a map is to run on a host: higher goes first, from LEAST to MOST. */
    interface Ranks {
        ToIntFunction<TaskAttemptId> on(String host);
    }

    private final Map<String, LinkedList<TaskAttemptId>> byHost;
    private final Map<String, LinkedList<TaskAttemptId>> byRack;
    private final Map<TaskAttemptId, Object> waiting;
    private final Collection<TaskAttemptId> failed;
    private final UnaryOperator<String> rackOf;

    /**
     * What MapReduce has.
     *
     * @param byHost maps that have a replica on it; they may be waiting no more
     * @param waiting all that wait, in the order in which they came
     * @param failed those that have failed before, for which containers of their own are asked
     */
    MapOrder(Map<String, LinkedList<TaskAttemptId>> byHost, Map<String, LinkedList<TaskAttemptId>> byRack,
            Map<TaskAttemptId, Object> waiting, Collection<TaskAttemptId> failed, UnaryOperator<String> rackOf) {
        this.byHost = byHost;
        this.byRack = byRack;
        this.waiting = waiting;
        this.failed = failed;
        this.rackOf = rackOf;
    }

    /** The choice for containers that came together. */
    private final class Choice {
        final Ranks ranks;
        final Set<TaskAttemptId> taken = new HashSet<>();

        Choice(Ranks ranks) {
            this.ranks = ranks;
        }

        /**
         * Gives places the best maps of their lists, one after the other, and moves these to the front.
         *
         * @param listOf name of a place's list
         * @return the places that have got none
         */
        List<Place> give(List<Place> places, Function<Place, String> listOf, Function<String, Collection<TaskAttemptId>> lists,
                Predicate<TaskAttemptId> fit) {
            Map<String, Iterator<TaskAttemptId>> best = new HashMap<>();
            Map<String, List<TaskAttemptId>> given = new LinkedHashMap<>();
            List<Place> rest = new ArrayList<>();
            Predicate<TaskAttemptId> free = map -> !taken.contains(map) && waiting.containsKey(map) && fit.test(map);
            for (Place place : places) {
                String name = listOf.apply(place);
                Collection<TaskAttemptId> list = lists.apply(name);
                TaskAttemptId map = list == null ? null : next(best.computeIfAbsent(place.host,
                    host -> best(list, places.size(), free, ranks.on(host)).iterator()));
                if (map == null) {
                    rest.add(place);
                } else {
                    taken.add(map);
                    given.computeIfAbsent(name, n -> new ArrayList<>()).add(map);
                }
            }
            given.forEach((name, maps) -> toFront(lists.apply(name), maps));
            return rest;
        }

        private TaskAttemptId next(Iterator<TaskAttemptId> maps) {
            while (maps.hasNext()) {
                TaskAttemptId map = maps.next();
                if (!taken.contains(map)) {
                    return map;
                }
            }
            return null;
        }
    }

    /** @param places in the order in which MapReduce goes through them */
    void arrange(List<Place> places, Ranks ranks) {
        Choice choice = new Choice(ranks);
        List<Place> local = places.stream().filter(Place::local).toList();
        List<Place> rest = choice.give(local, Place::host, byHost::get, map -> true);
        if (!rest.isEmpty() && !byRack.isEmpty()) {
            rest = choice.give(rest, place -> rackOf.apply(place.host), byRack::get, map -> true);
        }
        if (local.size() < places.size()) {
            Set<Place> without = Collections.newSetFromMap(new IdentityHashMap<>()); // places may be equal
            without.addAll(rest);
            rest = places.stream().filter(place -> !place.local || without.contains(place)).toList();
        }
        if (!rest.isEmpty()) {
            Set<TaskAttemptId> apart = new HashSet<>(failed);
            choice.give(rest, place -> "", name -> waiting.keySet(), map -> !apart.contains(map));
        }
    }

    /**
     * Returns at most n of a list, highest rank first, and of equal ones in the order of the list. Looks at ranks alone of
     * what cannot be among them.
     */
    private static List<TaskAttemptId> best(Collection<TaskAttemptId> list, int n, Predicate<TaskAttemptId> free,
            ToIntFunction<TaskAttemptId> ranks) {
        List<List<TaskAttemptId>> found = new ArrayList<>();
        for (int rank = LEAST; rank <= MOST; rank++) {
            found.add(new ArrayList<>());
        }
        int enough = -1; // of this rank and above there are n, or it is below all
        int above = 0;
        for (TaskAttemptId map : list) {
            int rank = ranks.applyAsInt(map) - LEAST;
            if (rank > enough && free.test(map)) {
                found.get(rank).add(map);
                above++;
                while (above >= n) {
                    above -= found.get(++enough).size();
                }
                if (enough == found.size() - 1) {
                    break;
                }
            }
        }
        List<TaskAttemptId> best = new ArrayList<>();
        for (int rank = found.size() - 1; rank >= 0; rank--) {
            best.addAll(found.get(rank));
        }
        return best.subList(0, Math.min(n, best.size()));
    }

    private void toFront(Collection<TaskAttemptId> list, List<TaskAttemptId> maps) {
        if (list instanceof LinkedList) {
            toFront((LinkedList<TaskAttemptId>) list, maps);
        } else if (!begins(list, maps)) {
            Set<TaskAttemptId> first = new HashSet<>(maps);
            List<TaskAttemptId> all = new ArrayList<>(maps);
            list.stream().filter(map -> !first.contains(map)).forEach(all::add);
            all.forEach(map -> waiting.put(map, waiting.remove(map))); // to the end, one after the other
        }
    }

    private void toFront(LinkedList<TaskAttemptId> list, List<TaskAttemptId> maps) {
        while (!waiting.containsKey(list.getFirst())) {
            list.removeFirst();
        }
        if (begins(list, maps)) {
            return;
        }
        Set<TaskAttemptId> first = new HashSet<>(maps);
        Iterator<TaskAttemptId> old = list.iterator();
        while (!first.isEmpty()) {
            if (first.remove(old.next())) {
                old.remove();
            }
        }
        list.addAll(0, maps);
    }

    private static boolean begins(Collection<TaskAttemptId> list, List<TaskAttemptId> maps) {
        Iterator<TaskAttemptId> there = list.iterator();
        return maps.stream().allMatch(map -> there.hasNext() && there.next().equals(map));
    }
}
