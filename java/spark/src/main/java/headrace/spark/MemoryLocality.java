package headrace.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.spark.scheduler.ExecutorLossReason;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import scala.Enumeration;
import scala.collection.mutable.ArrayBuffer;

/**
 * Stands in Spark's root pool and has no tasks. Whenever Spark has executors to offer it asks all that stand there for
 * theirs, before it chooses any, holding the scheduler's lock; that is when it is noticed what tasks that wait are to be in another order
 * (quartet, section 4.2). Nothing is asked or waited for there. A thread of its own sorts; only of a barrier stage that waits, and of one that is
 * given up, the lists are sorted under the lock.
 *
 * <p>Whatever fails is counted, and leaves the stage in Spark's own order from then on.
 */
final class MemoryLocality implements Schedulable {
    /** No pool that a user names. */
    private static final String NAME = "headrace: memory locality, no pool";

    /** Counts, guarded by the lock of the scheduler. Read by other threads. */
    static final class Counts {
        volatile long stages;
        volatile long lists;
        volatile long nanos;
        volatile long longestNanos;
    }

    private final TaskSchedulerImpl scheduler;
    private final int application;
    private final long delay;
    private final Consumer<TaskSetOrder> begin;
    private final Consumer<Throwable> doubt;
    private final Counts counts = new Counts();
    private final ConcurrentLinkedQueue<Schedulable> none = new ConcurrentLinkedQueue<>();
    private volatile Pool parent;
    /** An executor was lost, or is about to be. */
    private volatile boolean fewer;
    private final Admission admission;
    private final Executor sorter;
    /** Stages that will be put into order, first come first. Guarded by itself. */
    private final Set<TaskSetOrder> asked = new LinkedHashSet<>();

    // The rest is guarded by the scheduler's lock.
    private final Map<TaskSetManager, TaskSetOrder> stages = new IdentityHashMap<>();
    private final Map<String, Boolean> alive = new HashMap<>();
    private int hosts;
    private int executors;
    private boolean timed;
    /** Hosts that Spark offers no tasks, as some have failed there. */
    private scala.collection.immutable.Set<String> excluded;

    /**
     * @param application its number: which tasks come first of equal ones differs between applications
     * @param delay how long a host may be without a task beside tasks whose input another one has; nanoseconds
     * @param admission has stages that are not in a pool yet; null: there are none
     * @param sorter puts tasks into order, one stage at a time
     * @param begin is told a stage that begins, under the lock; whoever takes it publishes what it is to be ordered by
     * @param doubt is told what has failed, under the lock
     */
    MemoryLocality(TaskSchedulerImpl scheduler, int application, long delay, Admission admission, Executor sorter,
            Consumer<TaskSetOrder> begin, Consumer<Throwable> doubt) {
        this.scheduler = scheduler;
        this.application = application;
        this.delay = delay;
        this.admission = admission;
        this.sorter = sorter;
        this.begin = begin;
        this.doubt = doubt;
    }

    Counts counts() {
        return counts;
    }

    @Override
    public ArrayBuffer<TaskSetManager> getSortedTaskSetQueue() {
        if (Thread.holdsLock(scheduler)) {
            look();
        }
        return new ArrayBuffer<>();
    }

    /** Begins with stages that are new, and notices what has changed. The caller has the scheduler's lock. */
    void look() {
        timed(() -> {
            try {
                visit();
            } catch (Throwable e) { // the scheduler must not fail because of this
                doubt.accept(e);
            }
            return null;
        });
    }

    /** Does something under the lock, which nobody else has meanwhile; what is done within that counts once. */
    private <T> T timed(Supplier<T> work) {
        synchronized (scheduler) {
            if (timed) {
                return work.get();
            }
            timed = true;
            long began = System.nanoTime();
            try {
                return work.get();
            } finally {
                timed = false;
                long took = System.nanoTime() - began;
                counts.nanos += took;
                counts.longestNanos = Math.max(counts.longestNanos, took);
            }
        }
    }

    /** A stage is to be put into order. Does not wait. */
    private void ask(TaskSetOrder order) {
        if (order.isBarrier() && Thread.holdsLock(scheduler)) { // between two offers Spark adds all of its tasks again
            arrange(order);
            return;
        }
        synchronized (asked) {
            if (!asked.add(order)) {
                return;
            }
        }
        try {
            sorter.execute(() -> next().ifPresent(this::arrange));
        } catch (RejectedExecutionException e) {
            return; // the application ends
        }
    }

    /** Takes out the stage that is to be put into order next: one that waits for that to begin, before others. */
    private Optional<TaskSetOrder> next() {
        synchronized (asked) {
            Optional<TaskSetOrder> next = asked.stream().filter(TaskSetOrder::begins).findFirst().or(() -> asked.stream().findFirst());
            next.ifPresent(asked::remove);
            return next;
        }
    }

    private void arrange(TaskSetOrder order) {
        boolean begins = order.begins(); // before what it is ordered by is taken
        try {
            TaskSetOrder.Arrangement next = timed(() -> order.copy(this::alive));
            if (next != null) {
                next.sort();
                timed(() -> counts.lists += order.put(next));
            }
        } catch (Throwable e) { // Spark's own order is left
            doubt.accept(e);
            giveUp(order);
        }
        if (begins) {
            order.begun();
            if (admission != null) {
                admission.known(order.stage());
            }
        }
    }

    private void giveUp(TaskSetOrder order) {
        timed(() -> {
            try {
                order.giveUp();
            } catch (Throwable e) {
                doubt.accept(e);
            }
            return null;
        });
    }

    void doubt(Throwable e) {
        doubt.accept(e);
    }

    private void visit() {
        List<TaskSetManager> all = new ArrayList<>();
        gather(scheduler.rootPool(), all);
        if (admission != null) {
            gather(admission.held(), all);
        }
        boolean change = refresh();
        for (TaskSetManager stage : all) {
            TaskSetOrder order = stages.get(stage);
            if (order == null) {
                order = new TaskSetOrder(stage, application, delay, this::ask);
                stages.put(stage, order);
                counts.stages++;
                begin.accept(order);
            }
            if (!order.over()) {
                try {
                    order.visit(change);
                } catch (Throwable e) {
                    doubt.accept(e);
                    giveUp(order);
                }
            }
        }
        if (stages.size() > all.size()) {
            stages.entrySet().removeIf(entry -> {
                boolean gone = all.stream().noneMatch(stage -> stage == entry.getKey());
                if (gone) {
                    entry.getValue().end();
                }
                return gone;
            });
        }
        if (stages.isEmpty()) {
            alive.clear();
        }
    }

    private void gather(Schedulable from, List<TaskSetManager> all) {
        if (from instanceof TaskSetManager) {
            all.add((TaskSetManager) from);
        } else if (from != this && from.schedulableQueue() != null) {
            from.schedulableQueue().forEach(each -> gather(each, all));
        }
    }

    /** Looks which hosts may run tasks, of those that were asked for. Returns whether that has changed. */
    private boolean refresh() {
        int nowHosts = scheduler.hostToExecutors().size();
        int nowExecutors = scheduler.executorIdToHost().size();
        scala.collection.immutable.Set<String> nowExcluded = scheduler.excludedNodes();
        if (nowHosts == hosts && nowExecutors == executors && !fewer && nowExcluded.equals(excluded)) {
            return false; // whoever comes is one more, and of whoever goes the pools are told
        }
        fewer = false;
        hosts = nowHosts;
        executors = nowExecutors;
        excluded = nowExcluded;
        boolean change = false;
        for (Map.Entry<String, Boolean> host : alive.entrySet()) {
            boolean now = runsTasks(host.getKey());
            change |= now != host.setValue(now);
        }
        return change;
    }

    private boolean alive(String host) {
        return alive.computeIfAbsent(host, this::runsTasks);
    }

    private boolean runsTasks(String host) {
        return scheduler.hasExecutorsAliveOnHost(host) && !excluded.contains(host);
    }

    @Override
    public void executorLost(String executor, String host, ExecutorLossReason reason) {
        fewer = true;
        if (Thread.holdsLock(scheduler)) {
            stages.values().forEach(TaskSetOrder::disturb);
        }
    }

    @Override
    public void executorDecommission(String executor) {
        fewer = true;
    }

    @Override
    public boolean checkSpeculatableTasks(long minimum) {
        return false;
    }

    @Override
    public ConcurrentLinkedQueue<Schedulable> schedulableQueue() {
        return none;
    }

    @Override
    public void addSchedulable(Schedulable schedulable) { }

    @Override
    public void removeSchedulable(Schedulable schedulable) { }

    @Override
    public Schedulable getSchedulableByName(String name) {
        return null;
    }

    @Override
    public Pool parent() {
        return parent;
    }

    @Override
    public void parent_$eq(Pool pool) {
        parent = pool;
    }

    @Override
    public Enumeration.Value schedulingMode() {
        return SchedulingMode.NONE();
    }

    @Override
    public int weight() {
        return 1;
    }

    @Override
    public int minShare() {
        return 0;
    }

    @Override
    public int runningTasks() {
        return 0;
    }

    /** After all others, as far as that matters. */
    @Override
    public int priority() {
        return Integer.MAX_VALUE;
    }

    @Override
    public int stageId() {
        return Integer.MAX_VALUE;
    }

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public boolean isSchedulable() {
        return false;
    }
}
