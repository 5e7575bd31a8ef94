package headrace.yarn.rm;

import headrace.client.ManagerClient;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has those containers give way that cost least, in place of those that YARN has chosen: of the same application, of the
 * same size and priority in the same partition, where YARN chooses them for their nodes on the same node, so that queues
 * and users are left with the same. YARN goes on choosing
 * its own while another is about to go in its place; that counts for it.
 */
final class Cheapest {
    private static final Logger LOG = LoggerFactory.getLogger(Cheapest.class);
    /** Of a kind beside those that YARN has chosen, at most. */
    private static final int MOST = 1000;

    /**
     * Between which of an application's containers it makes no difference to YARN.
     *
     * @param place null: any
     */
    private record Kind(ApplicationAttemptId attempt, Priority priority, Resource size, String partition, NodeId place) {
    }

    /** One that gives way in place of another. */
    private static final class Substitute {
        final RMContainer container;
        final Kind kind;
        /** Since when its application knows that it is to be killed; 0: it is not. */
        volatile long warnedMs;
        /** The manager has said how it gives way. */
        volatile boolean decided;
        /** The first round of YARN's policy that began when it had given way; 0: there was none yet. */
        volatile int seenIn;
        /** When it was last of use, and the round then. */
        private long usedMs;
        private int usedIn;

        Substitute(RMContainer container, Kind kind) {
            this.container = container;
            this.kind = kind;
        }

        void used(int round) {
            usedMs = Reconciler.clock();
            usedIn = round;
        }

        /** Whether it is not of use any more, by the time after which YARN itself forgets whom it has warned. */
        boolean forgotten(int chosenIn, long maxWaitMs) {
            return warnedMs != 0 && chosenIn > usedIn + 1 && Reconciler.clock() - usedMs > 2 * maxWaitMs;
        }
    }

    private final HeadraceScheduler scheduler;
    private final SchedulerBooks books;
    private final ManagerClient manager;
    private final Function<ContainerId, Suspension.Phase> phase;
    private final Victims.Outcome outcome;
    private final boolean sameNode;
    private final long maxWaitMs;
    private final Warnings warnings = new Warnings(LOG, "Containers give way in YARN's own order");
    private final Map<ContainerId, Substitute> substitutes = new ConcurrentHashMap<>();
    private volatile int round;

    /**
     * @param manager does not keep the caller waiting for long
     * @param phase where a container is, or null
     * @param sameNode YARN chooses containers for their nodes
     * @param maxWaitMs how long the application of a container that is killed is warned
     */
    Cheapest(HeadraceScheduler scheduler, SchedulerBooks books, ManagerClient manager,
            Function<ContainerId, Suspension.Phase> phase, Victims.Outcome outcome, boolean sameNode, long maxWaitMs) {
        this.scheduler = scheduler;
        this.books = books;
        this.manager = manager;
        this.phase = phase;
        this.outcome = outcome;
        this.sameNode = sameNode;
        this.maxWaitMs = maxWaitMs;
    }

    /** Called by the thread of YARN's policy. From this round on it reckons without those that have given way by now. */
    void roundBegins(int number) {
        substitutes.values().stream().filter(s -> s.decided && s.seenIn == 0 && !underWay(s))
            .forEach(s -> s.seenIn = number);
        round = number;
    }

    /** Called by the thread of Victims when those that it got last have been decided about. */
    void decided() {
        substitutes.values().forEach(s -> s.decided = true);
    }

    /** Called by the thread of Victims. */
    List<Victims.Victim> instead(List<Victims.Victim> chosen) {
        int before = round;
        int chosenIn = chosen.get(0).round();
        substitutes.values().removeIf(s -> s.seenIn != 0 && s.seenIn < before // what was chosen without it has come by now
            || s.forgotten(chosenIn, maxWaitMs));
        Map<Kind, List<Victims.Victim>> groups = new LinkedHashMap<>();
        List<Victims.Victim> result = new ArrayList<>();
        for (Victims.Victim victim : chosen) {
            Kind kind = kind(scheduler.getRMContainer(victim.id()));
            if (kind == null) {
                result.add(victim);
            } else {
                groups.computeIfAbsent(kind, k -> new ArrayList<>()).add(victim);
            }
        }
        groups.forEach((kind, victims) -> result.addAll(countWhatIsUnderWay(kind, victims)));
        groups.values().removeIf(List::isEmpty);
        int most = most(chosen.size(), groups.size());
        Map<Kind, List<RMContainer>> candidates = new HashMap<>();
        groups.forEach((kind, victims) -> candidates.put(kind, candidates(kind, victims, most)));
        Map<ContainerId, Double> costs = costs(candidates.values());
        groups.forEach((kind, victims) -> result.addAll(costs == null ? victims : cheapest(kind, victims, candidates.get(kind), costs)));
        return result;
    }

    /** How many of each kind the manager is asked about beside those chosen, so that it takes the question. */
    static int most(int chosen, int kinds) {
        return Math.max(0, Math.min(MOST, (ManagerClient.MOST_VICTIMS - chosen) / Math.max(1, kinds)));
    }

    private boolean underWay(Substitute s) {
        ContainerId id = s.container.getContainerId();
        return !books.gone(id) && (s.warnedMs != 0 || ordered(id));
    }

    private boolean ordered(ContainerId id) {
        return phase.apply(id) == Suspension.Phase.ORDERED;
    }

    /** Null: it is for YARN to say. */
    private Kind kind(RMContainer container) {
        FiCaSchedulerNode node = container == null ? null : scheduler.getNode(container.getAllocatedNode());
        return node == null || !exchangeable(container) ? null
            : new Kind(container.getContainerId().getApplicationAttemptId(), container.getAllocatedPriority(),
                container.getAllocatedResource(), node.getPartition(), sameNode ? node.getNodeID() : null);
    }

    private boolean exchangeable(RMContainer container) {
        return container.getState() == RMContainerState.RUNNING && container.getExecutionType() == ExecutionType.GUARANTEED
            && !books.vanishes(container) && books.ineligible(container) == null;
    }

    // So many of those that YARN has chosen are for room that others are about to make, or have made since. Returns those of the
    // others that were warned for long: the manager says again how they give way, as it does of those that YARN kills.
    private List<Victims.Victim> countWhatIsUnderWay(Kind kind, List<Victims.Victim> victims) {
        List<Victims.Victim> due = new ArrayList<>();
        for (Substitute s : List.copyOf(substitutes.values())) {
            ContainerId id = s.container.getContainerId();
            if (!s.kind.equals(kind)) {
                continue;
            }
            if (victims.stream().anyMatch(v -> v.id().equals(id))) {
                if (ordered(id)) {
                    victims.removeIf(v -> v.id().equals(id));
                } else {
                    substitutes.remove(id); // YARN, which has chosen it itself by now, has it killed in time
                }
                continue;
            }
            List<Victims.Victim> without = victims.stream().filter(v -> s.seenIn == 0 || v.round() < s.seenIn).toList();
            if (without.isEmpty()) {
                continue;
            }
            Victims.Victim last = without.get(without.size() - 1);
            victims.remove(last);
            outcome.left(last.id());
            s.used(round);
            if (underWay(s) && s.warnedMs != 0 && Reconciler.clock() - s.warnedMs >= maxWaitMs) {
                substitutes.put(id, new Substitute(s.container, kind)); // what it was told is over
                due.add(new Victims.Victim(id, last.round(), () -> scheduler.kill(s.container)));
            }
        }
        return due;
    }

    private List<RMContainer> candidates(Kind kind, List<Victims.Victim> victims, int most) {
        List<RMContainer> all = new ArrayList<>();
        victims.forEach(v -> all.add(scheduler.getRMContainer(v.id())));
        Set<RMContainer> there = new HashSet<>(all);
        FiCaSchedulerApp app = scheduler.getApplicationAttempt(kind.attempt());
        for (RMContainer other : app == null ? List.<RMContainer>of() : app.getLiveContainers()) {
            Suspension.Phase now = phase.apply(other.getContainerId());
            boolean runs = now == null || now == Suspension.Phase.RUNNING;
            if (all.size() < victims.size() + most && runs && kind.equals(kind(other)) && !substitutes.containsKey(other.getContainerId()) && there.add(other)) {
                all.add(other);
            }
        }
        return all;
    }

    /** Null when the manager does not say. */
    private Map<ContainerId, Double> costs(Collection<List<RMContainer>> of) {
        List<RMContainer> asked = of.stream().flatMap(List::stream).toList();
        if (asked.isEmpty()) {
            return Map.of();
        }
        try {
            List<OptionalDouble> prices = manager.price(asked.stream()
                .map(c -> new ManagerClient.Victim(c.getContainerId().toString(), Headroom.claim(c, scheduler))).toList());
            Map<ContainerId, Double> costs = new HashMap<>();
            for (int i = 0; i < asked.size(); i++) {
                costs.put(asked.get(i).getContainerId(), prices.get(i).orElse(Double.POSITIVE_INFINITY));
            }
            warnings.works();
            return costs;
        } catch (Throwable e) {
            warnings.fails(e);
            return null;
        }
    }

    private List<Victims.Victim> cheapest(Kind kind, List<Victims.Victim> victims, List<RMContainer> candidates, Map<ContainerId, Double> costs) {
        Map<ContainerId, Victims.Victim> chosen = new LinkedHashMap<>();
        victims.forEach(v -> chosen.put(v.id(), v));
        List<RMContainer> order = new ArrayList<>(candidates); // those that YARN has chosen are the first of equals
        order.sort(Comparator.comparingDouble(c -> costs.get(c.getContainerId())));
        List<Victims.Victim> result = new ArrayList<>();
        for (RMContainer container : order.subList(0, victims.size())) {
            Victims.Victim own = chosen.remove(container.getContainerId());
            result.add(own != null ? own : substitute(container, kind, victims.get(0).round()));
        }
        chosen.keySet().forEach(outcome::left);
        if (!chosen.isEmpty()) {
            LOG.info("In place of {} others of the application give way, which costs less", chosen.keySet());
        }
        return result;
    }

    private Victims.Victim substitute(RMContainer container, Kind kind, int chosenIn) {
        Substitute s = new Substitute(container, kind);
        substitutes.put(container.getContainerId(), s);
        return new Victims.Victim(container.getContainerId(), chosenIn, () -> {
            s.warnedMs = Reconciler.clock();
            s.used(round);
            scheduler.warn(container);
        });
    }
}
