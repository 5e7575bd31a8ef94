package headrace.yarn.rm;

import headrace.client.ManagerClient;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.slf4j.LoggerFactory;

/** Asks the manager again and again what the containers are doing. */
final class Watch implements Runnable {
    // Of two answers, for the case that something changes all the time, and how many containers are read in a second at most.
    private static final long LEAST_DISTANCE_MS = 20;
    private static final long CONTAINERS_PER_SECOND = 20_000;

    private final ManagerClient manager;
    private final Timing timing;
    private final LongSupplier clock;
    private final Consumer<ManagerState> listener;
    private final AtomicBoolean stopping;
    private final Supplier<ManagerClient.Applications> applications;
    private final Warnings warnings = new Warnings(LoggerFactory.getLogger(Watch.class),
        "What the containers are doing is not known; none is suspended or resumed meanwhile");

    private long version;
    private long read; // containers in the last answer
    private Map<ContainerId, RemoteContainer> containers = Map.of();
    private ManagerClient.Applications toldApplications = new ManagerClient.Applications(Map.of(), Set.of());

    /** @param applications all that there are */
    Watch(ManagerClient manager, Timing timing, LongSupplier clock, Consumer<ManagerState> listener,
            AtomicBoolean stopping, Supplier<ManagerClient.Applications> applications) {
        this.manager = manager;
        this.timing = timing;
        this.clock = clock;
        this.listener = listener;
        this.stopping = stopping;
        this.applications = applications;
    }

    @Override
    public void run() {
        long asOf = Long.MIN_VALUE;
        long since = Long.MIN_VALUE;
        boolean before = false;
        while (!stopping.get()) {
            long asked = clock.getAsLong();
            boolean answered = ask();
            asOf = answered ? asked : asOf;
            since = answered && !before ? asked : since;
            before = answered;
            listener.accept(new ManagerState(containers, asOf, answered, since));
            pause(answered ? Math.max(LEAST_DISTANCE_MS, read * 1000 / CONTAINERS_PER_SECOND) : timing.retry());
        }
    }

    private boolean ask() {
        try {
            ManagerClient.Applications now = applications.get();
            ManagerClient.Answer answer = manager.containers(version, Duration.ofMillis(timing.poll()), news(now));
            toldApplications = now;
            read = answer.containers().size();
            if (version == 0 || answer.version() != version) {
                Map<ContainerId, RemoteContainer> all = new HashMap<>();
                answer.containers().forEach(c -> RemoteContainer.of(c).ifPresent(r -> all.put(r.id(), r)));
                containers = all;
                version = answer.version();
            }
            warnings.works();
            return true;
        } catch (Throwable e) {
            if (!stopping.get()) {
                warnings.fails(e);
            }
            version = 0;
            return false;
        }
    }

    // A manager that is told of an application that has ended remembers it. Null: nothing is new.
    private ManagerClient.Applications news(ManagerClient.Applications now) {
        if (version == 0) {
            return now;
        }
        Set<String> ended = new HashSet<>(now.ended());
        ended.removeAll(toldApplications.ended());
        return ended.isEmpty() && now.live().equals(toldApplications.live()) ? null : new ManagerClient.Applications(now.live(), ended);
    }

    private static void pause(long millis) { // or until the plug-in stops
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
