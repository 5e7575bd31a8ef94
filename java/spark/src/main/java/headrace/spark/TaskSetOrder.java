package headrace.spark;

import headrace.locality.FirstTask;
import headrace.locality.LocalityInputs;
import headrace.locality.ResidentShares;
import headrace.locality.StageInputs;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.IntUnaryOperator;
import java.util.function.Predicate;
import org.apache.spark.Partition;
import org.apache.spark.scheduler.ExecutorCacheTaskLocation;
import org.apache.spark.scheduler.PendingTasksByLocality;
import org.apache.spark.scheduler.Task;
import org.apache.spark.scheduler.TaskLocality;
import org.apache.spark.scheduler.TaskLocation;
import org.apache.spark.scheduler.TaskSetManager;
import scala.collection.mutable.ArrayBuffer;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The order of the tasks of a stage that wait. What Spark keeps is permuted in place. A task is added only to the list of
 * a host that has its input in memory and was not among those that it prefers; and taken out only of those of other hosts,
 * for a short time, so that it is one of a host's without a replica there ({@link HeldTasks}).
 *
 * <p>All methods but those of {@link StageInputs.Stage} are called under the scheduler's lock. None
 * waits for anything.
 */
final class TaskSetOrder implements StageInputs.Stage {
    /** From the end of a list, at least: among these one that Spark has added since is noticed. */
    private static final int LOOKED_AT = 8;

    /** A list of Spark's as it was left. */
    private static final class Left {
        ArrayBuffer<Object> list;
        final int machine;
        /** Null: that of a rack, or of all. */
        final String host;

        Left(ArrayBuffer<Object> list, int machine, String host) {
            this.list = list;
            this.machine = machine;
            this.host = host;
        }
    }

    private final TaskSetManager stage;
    private final Runnable known;
    private final int tasks;
    private volatile ResidentShares published;
    private volatile boolean over;
    /** All that there was to know when the stage began has been published. */
    private volatile boolean complete;

    private ResidentShares shares;
    private final PendingOrder order;
    private final int first;
    private final Integer[] boxed;
    private int[] list = new int[0];
    private boolean[] useful = new boolean[0];
    private final Map<String, Integer> machineOf = new HashMap<>();
    private final List<Left> left = new ArrayList<>();
    /** How many of these are in order; the rest follows. */
    private int ordered;
    /** Attempts that had failed when Spark's additions were last looked for. */
    private int failed;
    /** Tasks that were added to the lists of hosts, and are there as far as is known. */
    private final Map<String, Set<Integer>> added = new HashMap<>();
    private final HeldTasks held;
    private Set<String> hosts = Set.of();
    /** What is in memory on a host stands in its list. */
    private boolean homes;
    private boolean disturbed;
    private boolean moved;
    /** It has been ordered by all that there was to know when it began. */
    private boolean settled;

    /** How much may still be ordered at an offer, in tasks of lists, each of which takes some ten nanoseconds under the lock. */
    static final class Allowance {
        private int left;

        Allowance(int tasks) {
            left = tasks;
        }

        private boolean any() {
            return left > 0;
        }

        private void take(int tasks) {
            left -= tasks;
        }
    }

    /**
     * @param application number of the application, which differs from those of others
     * @param delay how long a host may be without a task beside tasks whose input another one has; nanoseconds
     * @param known is told when it is known what is in memory of what the stage reads, and must not wait
     */
    TaskSetOrder(TaskSetManager stage, int application, long delay, Runnable known) {
        this.stage = stage;
        // A stage that takes all its hosts at once, or none, gets none that is short of a task.
        this.held = new HeldTasks(stage.isBarrier() ? 0 : delay, this::listOf);
        this.known = known;
        this.tasks = stage.numTasks();
        this.order = new PendingOrder(tasks);
        this.first = FirstTask.of(application + stage.stageId(), tasks);
        this.boxed = new Integer[tasks];
    }

    @Override
    public int tasks() {
        return tasks;
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
    }

    @Override
    public void known() {
        complete = true;
        known.run();
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
        left.forEach(one -> {
            find(one);
            sort(one, 0, task -> 0);
        });
    }

    /** Spark has added tasks that were lost, or may have. */
    void disturb() {
        disturbed = true;
    }

    /**
     * Orders what waits, where something has changed: all of it until everything that there is to know when the stage begins
     * has counted, later as much as is allowed, and the rest at the next offers.
     *
     * @param alive whether tasks can run on a host
     * @param change differs when that may have changed
     * @return how many lists were ordered
     */
    int visit(Predicate<String> alive, boolean change, Allowance rest) {
        boolean all = complete; // before what was published is taken
        ResidentShares now = published;
        if (now == null || stage.isZombie() || shares == null && now.isEmpty()) {
            return 0;
        }
        if (now.tasks() != tasks) {
            throw new IllegalStateException("shares of " + now.tasks() + " tasks for a stage of " + tasks);
        }
        moved |= change;
        disturbed |= held.expire(System.nanoTime());
        boolean whole = !settled || stage.isBarrier();
        boolean anew = now != shares || disturbed || stage.isBarrier();
        if ((anew || moved) && (whole || rest.any())) {
            if (anew || !hostsAlive(alive).equals(hosts)) {
                begin(now, alive);
            }
            moved = false;
            rest.take(tasks);
        }
        int sorted = failures() == failed ? 0 : additions();
        for (; ordered < left.size() && (whole || rest.any()); ordered++) {
            Left one = left.get(ordered);
            rest.take(one.list.length() + 1);
            sort(one);
            sorted++;
        }
        settled |= all;
        return sorted;
    }

    /**
     * Returns how many attempts have ended without success. Only with these Spark adds to its lists, but for what it tells an
     * executor's loss with; so they need not be looked at otherwise, of which there may be one for each host.
     */
    private int failures() {
        return stage.taskInfos().size() - stage.runningTasks() - stage.tasksSuccessful();
    }

    /** Orders the lists to which Spark has added, and returns how many. */
    private int additions() {
        int most = Math.max(LOOKED_AT, failures() - failed + 1);
        failed = failures();
        int sorted = 0;
        for (Left one : left.subList(0, ordered)) {
            if (added(one, most)) {
                sort(one);
                sorted++;
            }
        }
        return sorted;
    }

    private Set<String> hostsAlive(Predicate<String> alive) {
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

    /** Finds the lists, all of which are to be ordered. */
    private void begin(ResidentShares now, Predicate<String> alive) {
        shares = now;
        if (disturbed) {
            recall();
        }
        disturbed = false;
        failed = failures();
        ordered = 0;
        machineOf.clear();
        useful = new boolean[now.machines().size()];
        for (int m = 0; m < useful.length; m++) {
            for (String host : now.machines().get(m)) {
                machineOf.put(host, m);
                useful[m] |= alive.test(host);
            }
        }
        goHome(alive);
        hosts = hostsAlive(alive);
        PendingTasksByLocality pending = stage.pendingTasks();
        left.clear();
        for (String host : hosts) {
            scala.Option<ArrayBuffer<Object>> waiting = pending.forHost().get(host);
            if (waiting.isDefined() || held.keeps(host)) {
                left.add(new Left(listOf(host), machineOf.getOrDefault(host, -1), host));
            }
        }
        CollectionConverters.asJava(pending.forRack()).values().forEach(waiting -> left.add(new Left(waiting, -1, null)));
        left.add(new Left(pending.noPrefs(), -1, null));
        left.add(new Left(pending.all(), -1, null));
    }

    /**
     * Tasks are also to be found on a host that has their input in memory and that Spark does not know for it. That is
     * left out where it would make others wait: where tasks prefer hosts, and none of these has an executor.
     */
    private void goHome(Predicate<String> alive) {
        PendingTasksByLocality pending = stage.pendingTasks();
        boolean local = List.of(stage.myLocalityLevels()).contains(TaskLocality.NODE_LOCAL());
        homes = local || pending.forHost().isEmpty();
        if (!homes) {
            return;
        }
        String[] hostOf = new String[useful.length];
        for (int m = 0; m < useful.length; m++) {
            hostOf[m] = useful[m] ? shares.machines().get(m).stream().filter(alive).findFirst().orElseThrow() : null;
        }
        boolean[] more = {false};
        shares.homes((task, machine) -> {
            if (useful[machine] && stage.copiesRunning()[task] == 0 && !stage.successful()[task]
                    && !preferred(task, shares.machines().get(machine))) {
                String host = hostOf[machine];
                if (added.computeIfAbsent(host, h -> new HashSet<>()).add(boxed(task))) {
                    listOf(host).addOne(boxed(task));
                    more[0] = true;
                }
            }
        });
        if (!local && more[0]) {
            stage.recomputeLocality();
        }
    }

    /** Of the tasks that were added those count no longer that Spark has taken out, as they ran elsewhere: they may have been lost there. */
    private void recall() {
        added.replaceAll((host, tasks) -> {
            Set<Integer> still = new HashSet<>();
            for (Object task : CollectionConverters.asJava(listOf(host))) {
                if (tasks.contains(task)) {
                    still.add((Integer) task);
                }
            }
            return still;
        });
    }

    private ArrayBuffer<Object> listOf(String host) {
        scala.Option<ArrayBuffer<Object>> there = stage.pendingTasks().forHost().get(host);
        if (there.isDefined()) {
            return there.get();
        }
        ArrayBuffer<Object> fresh = new ArrayBuffer<>();
        stage.pendingTasks().forHost().put(host, fresh);
        return fresh;
    }

    /** Whether a task prefers one of these, or an executor that has kept what it computes. */
    private boolean preferred(int task, List<String> names) {
        scala.collection.Iterator<TaskLocation> locations = stage.tasks()[task].preferredLocations().iterator();
        while (locations.hasNext()) {
            TaskLocation at = locations.next();
            if (at instanceof ExecutorCacheTaskLocation || names.contains(at.host())) {
                return true;
            }
        }
        return false;
    }

    /** Whether the last ones of a list are out of order, to the end of which Spark adds. */
    private boolean added(Left one, int most) {
        int n = one.list.length();
        for (int i = n - 1; i > 0 && i > n - most; i--) {
            if (rank(one.list.apply(i), one.machine) < rank(one.list.apply(i - 1), one.machine)) {
                return true;
            }
        }
        return false;
    }

    private int rank(Object task, int machine) {
        return shares.rank((Integer) task, machine, useful);
    }

    private void sort(Left one) {
        find(one);
        sort(one, first, task -> shares.rank(task, one.machine, useful));
        if (one.host != null && homes) {
            held.take(one.host, one.list, task -> rank(task, one.machine));
        }
    }

    /** Spark drops the list of a host when it is empty, and makes another when there is something again. */
    private void find(Left one) {
        if (one.host != null) {
            one.list = held.putBack(one.host);
        }
    }

    private void sort(Left one, int from, IntUnaryOperator rank) {
        int n = one.list.length();
        if (list.length < n) {
            list = new int[n + n / 4];
        }
        for (int i = 0; i < n; i++) {
            list[i] = (Integer) one.list.apply(i);
        }
        order.sort(list, n, from, rank);
        for (int i = 0; i < n; i++) { // from here on nothing can fail
            one.list.update(i, boxed(list[i]));
        }
    }

    private Integer boxed(int task) {
        if (boxed[task] == null) {
            boxed[task] = task;
        }
        return boxed[task];
    }
}
