package headrace.spark;

import headrace.locality.FirstTask;
import headrace.locality.LocalityInputs;
import headrace.locality.ResidentShares;
import headrace.locality.StageInputs;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.IntUnaryOperator;
import java.util.function.Predicate;
import java.util.function.ToIntFunction;
import org.apache.spark.Partition;
import org.apache.spark.scheduler.ExecutorCacheTaskLocation;
import org.apache.spark.scheduler.PendingTasksByLocality;
import org.apache.spark.scheduler.Task;
import org.apache.spark.scheduler.TaskLocality;
import org.apache.spark.scheduler.TaskSetManager;
import scala.collection.mutable.ArrayBuffer;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The order of the tasks of a stage that wait. Spark's lists are copied under the scheduler's lock, put into order without it, and
 * put back under it: so the lock is held for a short time only, however many tasks there are. A task is added only to the list of
 * a host that has its input in memory and was not among those that it prefers; and taken out only of those of other hosts,
 * for a short time, so that it is one of a host's without a replica there ({@link HeldTasks}).
 *
 * <p>All methods but those of {@link StageInputs.Stage} and {@link Arrangement#sort} are called under the scheduler's lock. None
 * waits for anything.
 */
final class TaskSetOrder implements StageInputs.Stage {
    private final TaskSetManager stage;
    private final Consumer<TaskSetOrder> changed;
    private final int tasks;
    private final int first;
    private final HeldTasks held;
    private volatile ResidentShares published;
    private volatile boolean known;
    private volatile boolean begun;
    private volatile boolean over;

    /** In which the lists are; null: Spark's own. */
    private Arrangement current;
    /** How many tasks were in Spark's list of all when that was last looked at. */
    private int length;
    /** Spark may have added tasks to any list. */
    private boolean disturbed;
    /** Hosts may have come or gone. */
    private boolean moved;

    /**
     * @param application number of the application, which differs from those of others
     * @param delay how long a host may be without a task beside tasks whose input another one has; nanoseconds
     * @param changed is told that the stage is to be put into order again, or that all is known by which it is to be; must not wait
     */
    TaskSetOrder(TaskSetManager stage, int application, long delay, Consumer<TaskSetOrder> changed) {
        this.stage = stage;
        // A stage that takes all its hosts at once, or none, gets none that is short of a task.
        this.held = new HeldTasks(stage.isBarrier() ? 0 : delay, this::listOf);
        this.changed = changed;
        this.tasks = stage.numTasks();
        this.length = stage.pendingTasks().all().length();
        this.first = FirstTask.of(application + stage.stageId(), tasks);
    }

    @Override
    public int tasks() {
        return tasks;
    }

    TaskSetManager stage() {
        return stage;
    }

    boolean isBarrier() {
        return stage.isBarrier();
    }

    int stageId() {
        return stage.stageId();
    }

    @Override
    public void ranges(int number, StageInputs.Taker taker) throws ReflectiveOperationException {
        if (!cached(stage, number)) {
            InputRanges.of(partition(stage, number), taker);
        }
    }

    /** Whether an executor has what the first task computes from files. */
    boolean cached() {
        return tasks > 0 && cached(stage, 0);
    }

    /** Whether an executor has kept what a task would compute from files, which are not read then. */
    private static boolean cached(TaskSetManager stage, int number) {
        return CollectionConverters.asJava(stage.tasks()[number].preferredLocations()).stream()
            .anyMatch(ExecutorCacheTaskLocation.class::isInstance);
    }

    /** Whether the first task of a stage reads files that have blocks, as far as is known without asking anybody. */
    static boolean readsBlocks(TaskSetManager stage) throws ReflectiveOperationException {
        boolean[] any = {false};
        if (stage.numTasks() > 0 && !cached(stage, 0)) {
            InputRanges.of(partition(stage, 0), (file, start, length) -> any[0] |= LocalityInputs.hasBlocks(file));
        }
        return any[0];
    }

    /** Only the task knows it, in a field that is not public but the same in all versions of Spark. */
    private static Partition partition(TaskSetManager stage, int number) throws ReflectiveOperationException {
        Task<?> task = stage.tasks()[number];
        for (Class<?> c = task.getClass(); c != Object.class; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                if (Partition.class.isAssignableFrom(field.getType())) {
                    field.setAccessible(true);
                    return (Partition) field.get(task);
                }
            }
        }
        return null;
    }

    @Override
    public void publish(ResidentShares now) {
        published = now;
        changed.accept(this);
    }

    /** Counts once: it is said again with each change of what is in memory. */
    @Override
    public void known() {
        if (!known) {
            known = true;
            changed.accept(this);
        }
    }

    /** Whether all is known by which its first tasks are to be ordered, and they have not been yet. Any thread may ask. */
    boolean begins() {
        return known && !begun;
    }

    void begun() {
        begun = true;
    }

    @Override
    public boolean over() {
        return over;
    }

    void end() {
        over = true;
    }

    /** Ends it, and puts what waits into Spark's own order. */
    void giveUp() {
        over = true;
        held.putBack();
        if (current != null) {
            Sorting own = new Sorting(0);
            current.lists.forEach(one -> {
                one.copy();
                one.sort(own, task -> 0);
                one.put();
            });
        }
    }

    /** Spark has added tasks that were lost, or may have. */
    void disturb() {
        disturbed = true;
    }

    /**
     * Asks for another order when Spark has added tasks, or hosts have come or gone. Until then what Spark has added is where Spark
     * would look for it. Of a barrier stage, whose tasks Spark adds again with each offer that is not enough for all, at each call.
     *
     * @param change whether other hosts than before may run tasks
     */
    void visit(boolean change) {
        moved |= change;
        if (stage.isZombie() || stage.isBarrier() && stage.runningTasks() > 0) {
            return;
        }
        held.expire(System.nanoTime());
        int now = stage.pendingTasks().all().length(); // to which Spark adds each task, wherever else that belongs
        disturbed |= now > length || stage.isBarrier();
        length = now;
        if (current != null && (disturbed || moved)) {
            changed.accept(this);
        }
    }

    /**
     * Copies the lists, when they are to be in another order than they are. That is put into order next, and then {@link #put} back.
     *
     * @param alive whether tasks can run on a host
     * @return null: nothing has changed
     */
    Arrangement copy(Predicate<String> alive) {
        ResidentShares now = published;
        if (over || stage.isZombie()) {
            return null;
        }
        boolean others = moved && current != null && !hostsAlive(current.machineOf, alive).equals(current.hosts);
        boolean due = others || disturbed;
        moved = false;
        disturbed = false;
        if (now == null || current == null && now.isEmpty()) {
            return null;
        }
        if (now.tasks() != tasks) {
            throw new IllegalStateException("shares of " + now.tasks() + " tasks for a stage of " + tasks);
        }
        return due || current == null || now != current.shares ? new Arrangement(now, alive) : null;
    }

    /** Has Spark take its tasks in another order. Returns how many lists that are; 0: they were put into another one since. */
    int put(Arrangement next) {
        if (over || next.before != current) {
            disturbed = true;
            return 0;
        }
        for (Waiting one : next.lists) {
            disturbed |= one.keepAdded();
            one.put();
        }
        if (next.tellsHomes) {
            stage.recomputeLocality();
        }
        length = stage.pendingTasks().all().length();
        current = next;
        next.before = null;
        return next.lists.size();
    }

    private Set<String> hostsAlive(Map<String, Integer> machineOf, Predicate<String> alive) {
        Set<String> now = new HashSet<>();
        scala.collection.Iterator<String> names = stage.pendingTasks().forHost().keysIterator();
        while (names.hasNext()) {
            String host = names.next();
            if (alive.test(host)) {
                now.add(host);
            }
        }
        machineOf.keySet().stream().filter(alive).forEach(now::add);
        return now;
    }

    /** Returns a host's list, of which Spark makes another where it has dropped the old one as empty. */
    private ArrayBuffer<Object> listOf(String host) {
        scala.Option<ArrayBuffer<Object>> there = stage.pendingTasks().forHost().get(host);
        if (there.isDefined()) {
            return there.get();
        }
        ArrayBuffer<Object> fresh = new ArrayBuffer<>();
        stage.pendingTasks().forHost().put(host, fresh);
        return fresh;
    }

    /** An order of all lists, by what was in memory and which hosts there were when they were copied. */
    final class Arrangement {
        private final ResidentShares shares;
        /** What it takes the place of; null: Spark's own order, or it has taken it. */
        private Arrangement before = current;
        private final Map<String, Integer> machineOf = new java.util.HashMap<>();
        /** Machines by number that can run tasks, and the list of a host of each. */
        private final boolean[] useful;
        private final Waiting[] homeOf;
        private final Set<String> hosts;
        private final List<Waiting> lists = new ArrayList<>();
        /** What is in memory on a host stands in its list. */
        private final boolean homes;
        /** Spark is told that there are hosts which tasks prefer: it knows of none yet. */
        private boolean tellsHomes;
        /** As Spark had them, where tasks are added to lists, until they are sorted. */
        private int[] running;
        private boolean[] successful;

        private Arrangement(ResidentShares shares, Predicate<String> alive) {
            this.shares = shares;
            useful = new boolean[shares.machines().size()];
            homeOf = new Waiting[useful.length];
            for (int m = 0; m < useful.length; m++) {
                for (String host : shares.machines().get(m)) {
                    machineOf.put(host, m);
                }
            }
            hosts = hostsAlive(machineOf, alive);
            PendingTasksByLocality pending = stage.pendingTasks();
            // Where tasks prefer hosts, none of which has an executor, others would wait for those that have some.
            boolean local = List.of(stage.myLocalityLevels()).contains(TaskLocality.NODE_LOCAL());
            homes = local || pending.forHost().isEmpty();
            tellsHomes = !local;
            Map<String, Waiting> byHost = new java.util.HashMap<>();
            hosts.forEach(host -> byHost.put(host, new Waiting(pending.forHost(), host, null, machineOf.getOrDefault(host, -1))));
            lists.addAll(byHost.values());
            for (int m = 0; m < useful.length; m++) { // two machines may share a name
                homeOf[m] = shares.machines().get(m).stream().map(byHost::get).filter(Objects::nonNull).findFirst().orElse(null);
                useful[m] = homeOf[m] != null;
            }
            CollectionConverters.asJava(pending.forRack()).keySet().forEach(rack -> lists.add(new Waiting(pending.forRack(), rack, null, -1)));
            lists.add(new Waiting(null, null, pending.noPrefs(), -1));
            lists.add(new Waiting(null, null, pending.all(), -1));
            lists.forEach(Waiting::copy);
            if (homes) {
                running = stage.copiesRunning().clone();
                successful = stage.successful().clone();
            }
        }

        /** Puts the copies into order. The lock is not needed. */
        void sort() {
            if (homes) {
                goHome();
            }
            Sorting sorting = new Sorting(first);
            lists.forEach(one -> sort(one, sorting));
        }

        /** Tasks are also to be found on a host that has their input in memory and that Spark does not know for it. */
        private void goHome() {
            boolean[] any = {false};
            shares.homes((task, machine) -> {
                if (useful[machine] && running[task] == 0 && !successful[task] && !cached(stage, task)) {
                    homeOf[machine].add(task);
                    any[0] = true;
                }
            });
            tellsHomes &= any[0];
            running = null;
            successful = null;
        }

        private void sort(Waiting one, Sorting sorting) {
            one.sort(sorting, task -> shares.rank(task, one.machine, useful));
            if (homes && one.host) {
                one.hold(task -> rank(task, one));
            }
        }

        private int rank(Object task, Waiting in) {
            return shares.rank((Integer) task, in.machine, useful);
        }
    }

    /** What lists are sorted with, one after the other. */
    private final class Sorting {
        private final PendingOrder order = new PendingOrder(tasks);
        private final int first;
        /** As Spark has them. */
        private final Object[] numbers = new Object[tasks];

        Sorting(int first) {
            this.first = first;
        }

        Object number(int task) {
            if (numbers[task] == null) {
                numbers[task] = task;
            }
            return numbers[task];
        }
    }

    /** One of Spark's lists. */
    private final class Waiting {
        /** Those of hosts or of racks; null: it is not one of these. */
        private final HashMap<String, ArrayBuffer<Object>> several;
        private final String name;
        private final ArrayBuffer<Object> only;
        private final int machine;
        private final boolean host;
        private Object[] copied;
        /** To be added. */
        private int[] more = {};
        private int added;
        private ArrayBuffer<Object> sorted;
        /** Of these, which are kept from the host. */
        private List<Object> kept = List.of();

        Waiting(HashMap<String, ArrayBuffer<Object>> several, String name, ArrayBuffer<Object> only, int machine) {
            this.several = several;
            this.name = name;
            this.only = only;
            this.machine = machine;
            this.host = several == stage.pendingTasks().forHost();
        }

        /** As it is now: Spark drops that of a host when it is empty, and makes another when there is something again. */
        ArrayBuffer<Object> list() {
            return several == null ? only : several.getOrElse(name, ArrayBuffer::new);
        }

        /** Returns what is in it, and before that what is kept from the host. */
        private Object[] all() {
            List<Object> before = host ? held.of(name) : List.of();
            ArrayBuffer<Object> list = list();
            Object[] all = before.toArray(new Object[before.size() + list.length()]);
            list.copyToArray(all, before.size());
            return all;
        }

        void copy() {
            copied = all();
        }

        void add(int task) {
            if (added == more.length) {
                more = Arrays.copyOf(more, 2 * added + 16);
            }
            more[added++] = task;
        }

        void sort(Sorting with, IntUnaryOperator rank) {
            int[] list = Arrays.copyOf(more, added + copied.length);
            for (int i = 0; i < copied.length; i++) {
                list[added + i] = (Integer) copied[i];
            }
            int n = with.order.sort(list, list.length, with.first, rank);
            for (Object task : copied) {
                with.numbers[(Integer) task] = task;
            }
            sorted = new ArrayBuffer<>(Math.max(n, 16));
            for (int i = 0; i < n; i++) {
                sorted.addOne(with.number(list[i]));
            }
            more = new int[] {};
            added = 0;
        }

        /** Keeps from the host what it is to leave to others for a while. */
        void hold(ToIntFunction<Object> rank) {
            int n = held.leading(sorted, rank);
            kept = List.copyOf(CollectionConverters.asJava((ArrayBuffer<Object>) sorted.take(n)));
            sorted.remove(0, n);
        }

        /**
         * Keeps what is in it and not in the new order, as it was added since: where it is, at the end. Whatever else has happened,
         * no task that waits is lost then; and one that does not wait may be in a list, from which Spark takes it out.
         *
         * @return whether there is any
         */
        boolean keepAdded() {
            Object[] now = all();
            int same = Arrays.mismatch(now, copied);
            if (same < 0 || same == now.length) { // Spark takes from the end
                return false;
            }
            BitSet ordered = new BitSet(tasks);
            CollectionConverters.asJava((ArrayBuffer<Object>) sorted).forEach(task -> ordered.set((Integer) task));
            kept.forEach(task -> ordered.set((Integer) task));
            int before = sorted.length();
            for (int i = same; i < now.length; i++) {
                if (!ordered.get((Integer) now[i])) {
                    sorted.addOne(now[i]);
                }
            }
            return sorted.length() > before;
        }

        /** Has Spark take them in this order. What runs by now it passes over. */
        void put() {
            if (host && !held.keep(name, kept)) {
                sorted.insertAll(0, CollectionConverters.asScala(kept));
            }
            if (several == null) {
                only.clear();
                only.addAll(sorted);
            } else if (several.contains(name) || !sorted.isEmpty()) {
                several.put(name, sorted);
            }
            copied = null;
            sorted = null;
            kept = List.of();
        }
    }
}
