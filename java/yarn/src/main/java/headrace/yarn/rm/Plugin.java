package headrace.yarn.rm;

import headrace.client.ManagerClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Puts the parts of the plug-in together and has its threads. When it is off, or its configuration is of no use, there
 * are no threads and no network, and YARN does what it always does.
 */
final class Plugin {
    private static final Logger LOG = LoggerFactory.getLogger(Plugin.class);
    private static final long STOP_MS = 2000;
    private static final Set<RMContainerState> BEGINS_OR_RUNS =
        Set.of(RMContainerState.ALLOCATED, RMContainerState.ACQUIRED, RMContainerState.RUNNING);

    // Those that wait, too: their input is wanted, and after a restart of this ResourceManager all do until their masters are back.
    private static final Set<RMAppState> WAITS_OR_RUNS =
        Set.of(RMAppState.NEW, RMAppState.NEW_SAVING, RMAppState.SUBMITTED, RMAppState.ACCEPTED, RMAppState.RUNNING);

    // For good: it is written down, and a ResourceManager that starts again does not attempt them again.
    private static final Set<RMAppState> ENDED = Set.of(RMAppState.FINISHED, RMAppState.FAILED, RMAppState.KILLED);

    private final HeadraceScheduler scheduler;
    private final SchedulerBooks books;
    private final List<Thread> threads = new ArrayList<>();
    // Interrupts alone do not do: YARN's dispatcher swallows them.
    private final AtomicBoolean stopping = new AtomicBoolean();
    private Settings settings;
    private volatile Victims victims;
    private volatile Reconciler reconciler;
    private volatile SparedMasters masters;

    Plugin(HeadraceScheduler scheduler, SchedulerBooks books) {
        this.scheduler = scheduler;
        this.books = books;
    }

    void init(Configuration conf) {
        try {
            settings = Settings.from(conf);
        } catch (IllegalArgumentException e) {
            LOG.warn("Preemption kills, as without Headrace: {}", e.getMessage());
        } catch (Throwable e) {
            LOG.error("Preemption kills, as without Headrace", e);
        }
    }

    /** Whether containers may be suspended. */
    boolean active() {
        return settings != null && settings.mode() == Settings.Mode.ON;
    }

    void start() {
        if (settings == null || settings.mode() == Settings.Mode.OFF) {
            return;
        }
        try {
            startThreads();
        } catch (Throwable e) {
            LOG.error("Preemption kills, as without Headrace", e);
        }
    }

    private void startThreads() {
        Timing timing = scheduler.timing();
        ManagerClient manager = new ManagerClient(settings.manager(), settings.tokenFile(), settings.ca(), settings.timeout());
        Reconciler newReconciler = new Reconciler(scheduler, books, manager, settings.elsewhere(), timing, stopping);
        Victims newVictims = new Victims(manager, scheduler, settings, timing, newReconciler, cheapest(newReconciler), stopping);
        run("headrace-victims", newVictims);
        if (active()) {
            run("headrace-reconciler", newReconciler);
            run("headrace-watch", new Watch(manager, timing, Reconciler::clock, newReconciler::tell, stopping, this::applications));
            masters = new SparedMasters(timing.spare());
            reconciler = newReconciler;
        }
        victims = newVictims;
        LOG.info("Preemption asks the manager at {}, mode {}", settings.manager(), settings.mode());
    }

    private Cheapest cheapest(Reconciler newReconciler) {
        if (settings.order() == Settings.Order.YARN || !active()) {
            return null;
        }
        Configuration conf = scheduler.getConfiguration();
        ManagerClient prompt = new ManagerClient(settings.manager(), settings.tokenFile(), settings.ca(),
            Duration.ofMillis(scheduler.timing().prices()));
        return new Cheapest(scheduler, books, prompt, newReconciler::phase, newReconciler,
            conf.getBoolean(CapacitySchedulerConfiguration.PREEMPTION_SELECT_CANDIDATES_FOR_RESERVED_CONTAINERS, false),
            conf.getLong(CapacitySchedulerConfiguration.PREEMPTION_WAIT_TIME_BEFORE_KILL,
                CapacitySchedulerConfiguration.DEFAULT_PREEMPTION_WAIT_TIME_BEFORE_KILL));
    }

    private ManagerClient.Applications applications() {
        Map<String, ManagerClient.Application> live = new HashMap<>();
        Set<String> ended = new HashSet<>();
        for (RMApp app : scheduler.getRMContext().getRMApps().values()) {
            RMAppState state = app.getState();
            String id = app.getApplicationId().toString();
            if (WAITS_OR_RUNS.contains(state)) {
                live.put(id, new ManagerClient.Application(app.getQueue(), Headroom.onOurScale(app.getApplicationPriority())));
            } else if (ENDED.contains(state) && ended.size() < ManagerClient.MOST_ENDED) {
                ended.add(id);
            }
        }
        return new ManagerClient.Applications(live, ended);
    }

    void run(String name, Runnable work) {
        Thread thread = new Thread(() -> again(name, work), name);
        thread.setDaemon(true);
        thread.setUncaughtExceptionHandler((t, e) -> {
            victims = null; // nothing is suspended that nobody would have go on
            LOG.error("{} has ended, and preemption kills, as without Headrace; start the ResourceManager again", name, e);
        });
        threads.add(thread);
        thread.start();
    }

    // What leaves one of these threads must not be the end of preemption and of resumes.
    private void again(String name, Runnable work) {
        while (true) {
            try {
                work.run();
                return; // stopping
            } catch (Throwable e) {
                LOG.error("{} begins again", name, e);
            }
            try {
                Thread.sleep(scheduler.timing().retry());
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    void stop() throws InterruptedException {
        victims = null;
        reconciler = null;
        stopping.set(true);
        threads.forEach(Thread::interrupt);
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STOP_MS);
        for (Thread thread : threads) {
            thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime())));
        }
        threads.clear();
    }

    /**
     * Called by the dispatcher for a container that YARN preempts. Never blocks.
     *
     * @param kill it is to be killed, else its application to be told that it will be
     * @param stock what YARN does with it
     * @return whether it is taken over; stock is then run later, or not at all
     */
    boolean takes(RMContainer container, boolean kill, Runnable stock) {
        Victims to = victims;
        if (to == null) {
            return false;
        }
        ContainerId id = container.getContainerId();
        if (settings.mode() == Settings.Mode.OBSERVE_ONLY) {
            to.offer(id, kill, stock);
            return false;
        }
        Reconciler by = reconciler;
        if (by == null) {
            return false; // stopping
        }
        if (by.keeps(id)) {
            return true; // gives way already
        }
        if (books.vanishes(container)) {
            return true;
        }
        if (container.isAMContainer() && books.putsAside(id.getApplicationAttemptId()) && masters.spares(id, Reconciler.clock())) {
            LOG.info("{} is left alone for a while: it is the master of containers that are put aside", id);
            by.left(id);
            return true;
        }
        String why = unsuitable(container);
        if (why == null) {
            to.offer(id, kill, stock);
        } else {
            LOG.info("{} is preempted by YARN: {}", id, why);
        }
        return why == null;
    }

    // Containers that have not begun are not to be suspended yet; the manager says how long that may be waited for.
    private String unsuitable(RMContainer container) {
        return !BEGINS_OR_RUNS.contains(container.getState()) ? "it is " + container.getState()
            : container.getExecutionType() != ExecutionType.GUARANTEED ? "it is opportunistic"
            : books.ineligible(container);
    }

    /**
     * What the application master is told of the end of a container. Of one that this ResourceManager has ended it is
     * told at once; that its node tells that happens only after a restart, when what the master would have been told is
     * forgotten. A master that asks again is told what it is told of a release.
     */
    int exitStatus(ContainerId id, int ofNode) {
        RMApp app = scheduler.getRMContext().getRMApps().get(id.getApplicationAttemptId().getApplicationId());
        boolean released = active() && ofNode == ContainerExitStatus.KILLED_BY_RESOURCEMANAGER
            && settings.elsewhere().asksAgain(app);
        return released ? ContainerExitStatus.ABORTED : ofNode;
    }

    /** @see HeadraceScheduler#roundBegins */
    void roundBegins() {
        Victims to = victims;
        if (to != null) {
            to.roundBegins();
        }
    }

    /** @see HeadraceScheduler#passesOver */
    boolean passesOver(ContainerId id) {
        SparedMasters spared = masters;
        return spared != null && spared.passes(id, Reconciler.clock());
    }

    /** @see HeadraceScheduler#reconsiders */
    boolean reconsiders(ContainerId id) {
        Reconciler by = reconciler;
        return by != null && by.reconsiders(id);
    }

    /** For tests: where a container is, or null. */
    Suspension.Phase phase(ContainerId id) {
        Reconciler by = reconciler;
        return by == null ? null : by.phase(id);
    }
}
