package headrace.yarn.rm;

import headrace.client.ManagerClient;
import headrace.yarn.rm.Suspension.Phase;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Brings the ResourceManager in line with what the manager says that the containers are doing, and has those that are
 * put aside go on when there is room. What the manager says is the truth: there is nothing to recover after a restart.
 */
final class Reconciler implements Runnable, Victims.Outcome {
    private static final Logger LOG = LoggerFactory.getLogger(Reconciler.class);
    private static final int RESUMES = 5;
    private static final int MOST_DOUBLINGS = 2;

    private final HeadraceScheduler scheduler;
    private final SchedulerBooks books;
    private final Timing timing;
    private final AtomicBoolean stopping;
    private final Resumes resumes;
    private final Releases releases;
    private final Map<ContainerId, Suspension> suspensions = new ConcurrentHashMap<>();
    private final Set<ContainerId> reconsidered = ConcurrentHashMap.newKeySet();
    // Put aside by a person although they keep their resources; said once of each.
    private final Set<ContainerId> unsuitable = ConcurrentHashMap.newKeySet();
    private final Object news = new Object();
    // Out in this round, or served since it began.
    private List<Ask> asks = List.of();
    private volatile ManagerState told = ManagerState.NOTHING;
    private ManagerState seen = ManagerState.NOTHING;

    Reconciler(HeadraceScheduler scheduler, SchedulerBooks books, ManagerClient manager, Settings.Elsewhere elsewhere, Timing timing,
            AtomicBoolean stopping) {
        this.scheduler = scheduler;
        this.books = books;
        this.timing = timing;
        this.stopping = stopping;
        this.resumes = new Resumes(manager, timing);
        this.releases = new Releases(scheduler, manager, elsewhere, timing);
    }

    /** Milliseconds that only go forward. */
    static long clock() {
        return System.nanoTime() / 1_000_000;
    }

    /** Whether a container gives way, or has given way and does not go on yet: YARN must not preempt it. */
    @Override
    public boolean keeps(ContainerId id) {
        Suspension suspension = suspensions.get(id);
        return suspension != null && suspension.phase != Phase.RUNNING;
    }

    boolean reconsiders(ContainerId id) {
        return reconsidered.remove(id);
    }

    Phase phase(ContainerId id) {
        Suspension suspension = suspensions.get(id);
        return suspension == null ? null : suspension.phase;
    }

    void tell(ManagerState news) {
        synchronized (this.news) {
            told = news;
            this.news.notifyAll();
        }
    }

    @Override
    public void ordered(ContainerId id) {
        suspensions.compute(id, (key, known) -> known != null && known.phase != Phase.RUNNING
            ? known : again(known, new Suspension(id, Phase.ORDERED, clock())));
    }

    private static Suspension again(Suspension known, Suspension next) {
        next.rounds = known == null ? 0 : known.rounds;
        next.resumedMs = known == null ? 0 : known.resumedMs;
        return next;
    }

    @Override
    public void left(ContainerId id) {
        reconsidered.add(id);
    }

    @Override
    public void run() {
        try {
            while (!stopping.get()) {
                synchronized (news) {
                    if (told == seen) {
                        news.wait(timing.tick());
                    }
                    seen = told;
                }
                guarded("all containers", () -> round(seen, clock()));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            if (stopping.get()) { // else this begins again
                resumes.stop();
                releases.stop();
            }
        }
    }

    private void round(ManagerState seen, long now) {
        for (RemoteContainer remote : seen.containers().values()) {
            guarded(remote.id(), () -> settle(remote, seen, now));
        }
        for (Suspension suspension : suspensions.values()) {
            guarded(suspension.id, () -> proceed(suspension, seen, now));
        }
        if (seen.reachable()) {
            asks = books.asks();
            candidates(seen, now).forEach(s -> guarded(s.id, () -> resume(s, now)));
        }
        releases.tidy(id -> phase(id) == Phase.PARKED || phase(id) == Phase.ASKED, now);
        books.refund(now, id -> !runs(seen.containers().get(id)));
        reconsidered.removeIf(books::gone);
        unsuitable.removeIf(books::gone);
    }

    private static void guarded(Object what, Runnable work) {
        try {
            work.run();
        } catch (Throwable e) { // without this thread nothing that is put aside ever goes on
            LOG.warn("{}: the ResourceManager could not be brought in line", what, e);
        }
    }

    /** What follows from what the manager says of a container. */
    private void settle(RemoteContainer remote, ManagerState seen, long now) {
        Suspension s = suspensions.get(remote.id());
        if (s == null || s.phase == Phase.RUNNING) {
            if (remote.parked() && !(remote.held() && unsuitable.contains(remote.id()))) {
                park(remote, s, now);
            }
            return;
        }
        switch (s.phase) {
            case ORDERED -> {
                if (remote.parked()) {
                    park(remote, s, now);
                } else if (remote.running() && (s.seenBusy || seen.asOfMs() > s.sinceMs)) {
                    fail(s, remote.reason());
                }
                s.seenBusy |= remote.busy();
            }
            case PARKED -> {
                if (remote.running() && !s.urgent) {
                    LOG.warn("{} runs although its resources are free: root has had it go on, or no manager was heard of. It is"
                        + " charged for, and gets them before others", s.id);
                }
                s.urgent = remote.running();
                if (remote.parked() && remote.archived() && !remote.held()) {
                    release(s, now);
                }
            }
            case ASKED -> {
                s.urgent = remote.running();
                if (remote.parked() && (remote.held() || remote.archived())) {
                    withdraw(s, now);
                }
            }
            case RESUMING -> settleResume(s, remote, seen, now);
            default -> throw new IllegalStateException(s.phase.toString());
        }
    }

    private void settleResume(Suspension s, RemoteContainer remote, ManagerState seen, long now) {
        if (remote.running()) {
            LOG.info("{} goes on", s.id);
            s.enter(Phase.RUNNING, now);
            s.resumedMs = now;
            s.asideMs = 0;
            s.failures = 0;
            reconsidered.add(s.id);
        } else if (remote.parked() && remote.held()) {
            park(remote, s, now);
        } else if (remote.parked() && s.delivered && (remote.away() || s.deliveredMs < seen.sinceMs())) {
            // Its order has ended with its connection, or with the manager; whether it was carried out is not known.
            s.delivered = false;
            s.seenBusy = false;
            s.undeliveredMs = now;
        } else if (remote.parked() && s.delivered && (s.seenBusy || seen.asOfMs() > s.deliveredMs)) {
            failed(s, remote, now);
        }
        s.seenBusy |= s.delivered && remote.busy();
    }

    // What is missing may come back in some minutes; meanwhile others may have its room.
    private void failed(Suspension s, RemoteContainer remote, long now) {
        s.failures++;
        LOG.warn("{} does not go on ({} of {} attempts): {}", s.id, s.failures, RESUMES, remote.reason());
        if (s.failures >= RESUMES) {
            LOG.warn("{} is killed, because it cannot go on", s.id);
            suspensions.remove(s.id);
            books.kill(s.id);
            return;
        }
        s.delivered = false;
        s.seenBusy = false;
        long pause = timing.again() << s.failures - 1;
        s.notBeforeMs = now + pause;
        park(remote, s, now);
        s.notBeforeMs = Math.max(s.notBeforeMs, now + pause);
    }

    private void park(RemoteContainer remote, Suspension known, long now) {
        switch (books.demote(remote.id(), now)) {
            case DONE -> {
                Suspension s = known == null ? new Suspension(remote.id(), Phase.PARKED, now) : known;
                boolean soon = s.resumedMs != 0 && now - s.resumedMs < timing.soon();
                s.rounds = soon ? Math.min(s.rounds + 1, MOST_DOUBLINGS) : 0;
                s.enter(Phase.PARKED, now);
                s.asideMs = s.asideMs == 0 ? now : s.asideMs;
                s.notBeforeMs = now + (timing.parked() << s.rounds);
                suspensions.put(remote.id(), s);
                reconsidered.add(remote.id());
                LOG.info("{} is {}: its resources are free", remote.id(), remote.state());
            }
            case NEVER -> {
                if (unsuitable.add(remote.id())) {
                    LOG.info("{} is {} but keeps its resources", remote.id(), remote.state());
                }
                if (remote.held()) {
                    suspensions.remove(remote.id());
                } else { // nobody else has it go on
                    Suspension s = known == null ? new Suspension(remote.id(), Phase.RESUMING, now) : known;
                    s.enter(Phase.RESUMING, now);
                    suspensions.put(remote.id(), s);
                }
            }
            default -> { } // not yet, or it has ended
        }
    }

    // Its application asks again, and the command goes on where YARN has room for it.
    private void release(Suspension s, long now) {
        LOG.info("{} is given up here, to go on elsewhere", s.id);
        releases.left(s.id, now);
        suspensions.remove(s.id);
        books.release(s.id);
        books.forget(s.id);
    }

    private void fail(Suspension s, String reason) {
        LOG.warn("{} does not give way: {}", s.id, reason);
        suspensions.remove(s.id, s);
        reconsidered.add(s.id);
    }

    /** What follows from what has happened in the ResourceManager, and from time. */
    private void proceed(Suspension s, ManagerState seen, long now) {
        if (books.gone(s.id)) {
            suspensions.remove(s.id, s);
            books.forget(s.id);
            return;
        }
        RemoteContainer remote = seen.containers().get(s.id);
        long age = now - s.sinceMs;
        switch (s.phase) {
            case ORDERED -> {
                boolean silent = remote == null || remote.away() || !seen.reachable();
                if (silent && age > timing.silent()) {
                    fail(s, "nothing is heard of it");
                }
            }
            case ASKED -> {
                if (books.promoted(s.id)) {
                    s.enter(Phase.RESUMING, now);
                    s.notBeforeMs = now;
                    LOG.info("{} has its resources again", s.id);
                    resumes.deliver(s, hears(seen, remote));
                } else if (books.lost(s.id) || !s.urgent && !stillDue(s, now)) {
                    withdraw(s, now);
                }
            }
            case RESUMING -> proceedResume(s, remote, hears(seen, remote), now);
            case RUNNING -> {
                if (age > 5 * timing.soon()) {
                    suspensions.remove(s.id, s);
                }
            }
            default -> { }
        }
    }

    private static boolean hears(ManagerState seen, RemoteContainer remote) {
        return seen.reachable() && (remote == null || !remote.away());
    }

    private void proceedResume(Suspension s, RemoteContainer remote, boolean hears, long now) {
        boolean undelivered = s.undeliveredMs != 0 && now - s.undeliveredMs > timing.undelivered();
        if (undelivered && !s.calling && remote != null && remote.parked()) {
            LOG.warn("{} cannot be told to go on; others may have its room", s.id);
            park(remote, s, now);
            s.notBeforeMs = now + timing.undelivered();
        } else if (!s.delivered && now >= s.notBeforeMs) {
            resumes.deliver(s, hears);
        }
    }

    // An ask that keeps its node stays as long as its queue is owed the resources, another one as long as somebody else
    // would have them first. There may be thousands: each is looked at every few seconds, and when it was in the way.
    private boolean stillDue(Suspension s, long now) {
        if (now - s.lookedMs <= timing.ask() && refusedMs(s) < s.lookedMs) {
            return true;
        }
        s.lookedMs = now;
        List<Ask> others = books.asks();
        Ask own = others.stream().filter(a -> a.key().container().getContainerId().equals(s.id)).findFirst().orElse(null);
        RMContainer container = own == null ? null : scheduler.getRMContainer(s.id);
        if (container == null) {
            return false;
        }
        Headroom room = Headroom.of(container, scheduler, others.stream().filter(a -> a != own).toList());
        return own.reserve() ? room.share() : !room.fits() && !room.share() && mayStandInLine(s, room, now);
    }

    // When the scheduler comes to an ask for more than its node has free it gives nothing to anybody there. Those of its
    // own queue come later anyway, but other queues are let pass then, each time for a while.
    private boolean mayStandInLine(Suspension s, Headroom room, long now) {
        return room.overtaken() && !(room.rivals() && now - refusedMs(s) < timing.ask());
    }

    private long refusedMs(Suspension s) {
        RMContainer container = scheduler.getRMContainer(s.id);
        return container == null ? 0 : books.refusedMs(container.getContainer().getNodeId());
    }

    private void withdraw(Suspension s, long now) {
        if (books.promoted(s.id)) {
            return; // served meanwhile; the next round goes on from there
        }
        books.withdraw(s.id);
        s.enter(Phase.PARKED, now);
        s.notBeforeMs = now + timing.retry();
    }

    private List<Suspension> candidates(ManagerState seen, long now) {
        // Priorities may change while it is sorted.
        Map<Suspension, Integer> all = suspensions.values().stream()
            .filter(s -> s.phase == Phase.PARKED && now >= s.notBeforeMs)
            .filter(s -> mayGoOn(s, seen.containers().get(s.id)))
            .collect(Collectors.toMap(s -> s, this::priority));
        return all.keySet().stream()
            .sorted(Comparator.comparing((Suspension s) -> !s.urgent)
                .thenComparing(s -> -all.get(s))
                .thenComparing(s -> s.askedMs)
                .thenComparing(s -> s.sinceMs)
                .thenComparing(s -> s.id))
            .toList();
    }

    private static boolean runs(RemoteContainer remote) {
        return remote != null && remote.running();
    }

    private static boolean mayGoOn(Suspension s, RemoteContainer remote) {
        return remote != null && !remote.away() && (s.urgent || remote.parked() && !remote.held());
    }

    private int priority(Suspension s) {
        FiCaSchedulerApp app = scheduler.getCurrentAttemptForContainer(s.id);
        return app == null ? 0 : app.getPriority().getPriority();
    }

    /** Asks for the resources of a container when it is its turn. */
    private void resume(Suspension s, long now) {
        RMContainer container = scheduler.getRMContainer(s.id);
        if (container == null) {
            return;
        }
        String stranded = Headroom.stranded(container, scheduler);
        if (!s.urgent && stranded != null) {
            giveUp(s, container, stranded, now);
            return;
        }
        s.strandedMs = 0;
        Headroom room = Headroom.of(container, scheduler, asks);
        if (!s.urgent && !room.fits() && !room.share()) {
            s.contestedMs = 0;
            releases.consider(s, container, false, now);
            if (mayStandInLine(s, room, now)) {
                ask(s, false, now); // the scheduler gives room to whoever has asked
            }
            return;
        }
        if (!s.urgent && room.contested() && !patient(s, now)) {
            return;
        }
        ask(s, s.urgent || !room.fits(), now);
    }

    // It goes on elsewhere, or ends as it would have when it was preempted; else its application would wait for it for ever.
    private void giveUp(Suspension s, RMContainer container, String why, long now) {
        if (s.strandedMs == 0) {
            s.strandedMs = now;
            LOG.info("{} cannot go on: {}", s.id, why);
        }
        releases.consider(s, container, true, now);
        if (now - s.strandedMs > releases.patience(container)) {
            LOG.warn("{} is killed as by preemption: {}", s.id, why);
            suspensions.remove(s.id);
            books.kill(s.id);
            books.forget(s.id);
        }
    }

    private void ask(Suspension s, boolean reserve, long now) {
        if (books.ask(s.id, reserve)) {
            asks = books.asks();
            s.askedMs = now;
            s.lookedMs = now;
            s.enter(Phase.ASKED, now);
        }
    }

    // Who is more urgent may be unable to take the room; then the order of the scheduler decides after a while.
    private boolean patient(Suspension s, long now) {
        if (s.contestedMs == 0) {
            s.contestedMs = now;
        }
        return now - s.contestedMs > timing.contested();
    }
}
