package headrace.yarn.rm;

import headrace.client.ManagerClient;
import headrace.client.ManagerClient.Mechanism;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Collects the containers that YARN preempts and has the manager say how each of them gives way. */
final class Victims implements Runnable {
    private static final Logger LOG = LoggerFactory.getLogger(Victims.class);
    private static final long AGAIN_MS = 100;

    /** What is done with the answers. Called by the thread of Victims, if nothing else is said. */
    interface Outcome {
        /** Whether it gives way already. Called by all threads. */
        boolean keeps(ContainerId id);

        /** It is being suspended or checkpointed. */
        void ordered(ContainerId id);

        /** Nothing happens to it now; YARN may choose it again at once. */
        void left(ContainerId id);
    }

    /** One that is to give way. */
    static final class Victim {
        private final ContainerId id;
        private final int round;
        private volatile Runnable stock;

        /**
         * @param round in which YARN has chosen it
         * @param stock what YARN does with it
         */
        Victim(ContainerId id, int round, Runnable stock) {
            this.id = id;
            this.round = round;
            this.stock = stock;
        }

        ContainerId id() {
            return id;
        }

        int round() {
            return round;
        }
    }

    private final ManagerClient manager;
    private final HeadraceScheduler scheduler;
    private final Settings settings;
    private final Timing timing;
    private final Outcome outcome;
    private final Cheapest cheapest;
    private final AtomicBoolean stopping;
    private final BlockingQueue<Victim> waiting = new LinkedBlockingQueue<>();
    /** Those of YARN's choice that are being asked about. What is chosen when an answer is carried out is a question of its own. */
    private final Map<ContainerId, Victim> asking = new ConcurrentHashMap<>();
    private final Warnings warnings;
    private final AtomicInteger round = new AtomicInteger();
    private boolean patient;

    /** @param cheapest exchanges those that YARN has chosen; null: they stay */
    Victims(ManagerClient manager, HeadraceScheduler scheduler, Settings settings, Timing timing, Outcome outcome, Cheapest cheapest,
            AtomicBoolean stopping) {
        this.manager = manager;
        this.scheduler = scheduler;
        this.settings = settings;
        this.timing = timing;
        this.outcome = outcome;
        this.cheapest = cheapest;
        this.stopping = stopping;
        boolean kill = settings.fallback() == Settings.Fallback.KILL;
        this.warnings = new Warnings(LOG, observing() ? "What would be done is not known"
            : kill ? "Containers are killed by YARN" : "Nothing is preempted");
    }

    private boolean observing() {
        return settings.mode() == Settings.Mode.OBSERVE_ONLY;
    }

    /** Called by the thread of YARN's policy, before it looks at who uses what. Never blocks. */
    void roundBegins() {
        int next = round.incrementAndGet();
        if (cheapest != null) {
            cheapest.roundBegins(next);
        }
    }

    /**
     * Takes a container on; never blocks. One that is being asked about already is not asked about again.
     *
     * @param kill its application has been told before; YARN says so once
     * @param stock what YARN would do with it; run later if the answer is so
     */
    void offer(ContainerId id, boolean kill, Runnable stock) {
        Victim victim = new Victim(id, round.get(), stock); // before it counts as asked about: this may fail
        asking.compute(id, (same, known) -> {
            if (known != null) {
                known.stock = kill ? stock : known.stock;
                return known;
            }
            if (outcome.keeps(id)) { // by now
                return null;
            }
            waiting.add(victim);
            return victim;
        });
    }

    @Override
    public void run() {
        try {
            while (!stopping.get()) {
                List<Victim> batch = gather();
                try {
                    List<Victim> victims = exchanged(batch);
                    if (!victims.isEmpty()) {
                        decide(victims);
                    }
                    if (cheapest != null) {
                        cheapest.decided();
                    }
                } finally {
                    batch.forEach(victim -> asking.remove(victim.id(), victim));
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private List<Victim> exchanged(List<Victim> batch) {
        try {
            return cheapest == null ? batch : cheapest.instead(batch);
        } catch (Throwable e) {
            LOG.error("Containers give way in YARN's own order", e);
            return batch;
        }
    }

    private int claim(ContainerId id) {
        RMContainer container = scheduler.getRMContainer(id);
        return container == null ? 0 : Headroom.claim(container, scheduler);
    }

    private List<Victim> gather() throws InterruptedException {
        List<Victim> batch = new ArrayList<>();
        batch.add(waiting.take());
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timing.gather());
        Victim next;
        while (batch.size() < ManagerClient.MOST_VICTIMS
                && (next = waiting.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)) != null) {
            batch.add(next);
        }
        return batch;
    }

    private void decide(List<Victim> batch) throws InterruptedException {
        List<ManagerClient.Decision> decisions;
        try {
            decisions = ask(batch.stream().map(v -> new ManagerClient.Victim(v.id().toString(), claim(v.id()))).toList());
            warnings.works();
        } catch (InterruptedException e) {
            throw e;
        } catch (Throwable e) {
            if (!stopping.get()) {
                String why = warnings.fails(e);
                batch.forEach(victim -> fallBack(victim, why));
            }
            return;
        }
        for (int i = 0; i < batch.size(); i++) {
            try {
                apply(batch.get(i), decisions.get(i));
            } catch (Throwable e) {
                LOG.error("{} could not be made to give way", batch.get(i).id(), e);
                leave(batch.get(i));
            }
        }
    }

    // A manager that has answered before and is just being started again answers soon, and may have ordered what it had
    // no time to answer. One that stays away holds up nobody else.
    private List<ManagerClient.Decision> ask(List<ManagerClient.Victim> victims) throws IOException, InterruptedException {
        long deadline = System.nanoTime() + settings.timeout().toNanos();
        while (true) {
            try {
                List<ManagerClient.Decision> decisions = manager.preempt(victims, observing());
                patient = true;
                return decisions;
            } catch (IOException e) {
                if (!patient || stopping.get() || System.nanoTime() >= deadline) {
                    patient = false;
                    throw e;
                }
            }
            Thread.sleep(AGAIN_MS);
        }
    }

    private void apply(Victim victim, ManagerClient.Decision decision) {
        if (observing()) {
            String mechanism = decision.mechanism() == Mechanism.UNKNOWN
                ? "kill, or wait as the fallback says:" : decision.mechanism().toString();
            LOG.info("{} is preempted by YARN; Headrace would: {} {}", victim.id(), mechanism, decision.reason());
            return;
        }
        switch (decision.mechanism()) {
            case SUSPEND, CHECKPOINT -> {
                LOG.info("{} gives way: {}; {}", victim.id(), decision.mechanism(), decision.reason());
                asking.compute(victim.id(), (id, known) -> { // who offers it meanwhile waits, and finds it kept
                    outcome.ordered(id);
                    return known == victim ? null : known;
                });
            }
            case WAIT -> {
                LOG.debug("{} is left alone: {}", victim.id(), decision.reason());
                leave(victim);
            }
            case KILL -> stock(victim, decision.mechanism() + "; " + decision.reason());
            case UNKNOWN -> fallBack(victim, decision.reason());
        }
    }

    /** For whatever reason there is no answer. */
    private void fallBack(Victim victim, String why) {
        if (observing()) {
            return;
        }
        if (settings.fallback() == Settings.Fallback.KILL) {
            stock(victim, "there is no answer, and " + Settings.FALLBACK + " is kill; " + why);
        } else {
            LOG.debug("{} is left alone, because {} is wait: {}", victim.id(), Settings.FALLBACK, why);
            leave(victim);
        }
    }

    private void leave(Victim victim) {
        asking.remove(victim.id(), victim);
        outcome.left(victim.id());
    }

    private void stock(Victim victim, String why) {
        LOG.info("{} is preempted by YARN: {}", victim.id(), why);
        try {
            asking.remove(victim.id(), victim); // before what it has become by now is looked up
            victim.stock.run();
        } catch (Throwable e) {
            LOG.warn("{} could not be preempted", victim.id(), e);
        }
    }
}
