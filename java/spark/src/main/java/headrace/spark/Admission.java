package headrace.spark;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;

/**
 * Has stages that read files come to Spark's pools when it is known what of these is in memory, or a short time later,
 * so that this counts for their first tasks too. Until then a stage stands in a pool of ours, which is offered nothing.
 * Nobody waits: others are served meanwhile, and a timer's thread puts the stage where Spark would have put it.
 *
 * <p>It takes the place of what Spark puts stages into pools with, in a field that is not public but the same in 3.5
 * and 4.x. Its own methods are called under the scheduler's lock, but for {@link #known} and {@link #close}.
 */
final class Admission implements SchedulableBuilder, AutoCloseable {
    private final TaskSchedulerImpl scheduler;
    private final long millis;
    private final Field field;
    private final SchedulableBuilder stock;
    private final Pool held = new Pool("headrace: not known yet what is in memory", SchedulingMode.FIFO(), 0, 0);
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(work -> {
        Thread thread = new Thread(work, "headrace admission");
        thread.setDaemon(true);
        return thread;
    });
    /** With what Spark gave with them. Guarded by the scheduler's lock. */
    private final Map<TaskSetManager, Optional<Properties>> waiting = new HashMap<>();
    private MemoryLocality locality;

    /** @param millis at most, from when a stage is submitted */
    Admission(TaskSchedulerImpl scheduler, long millis) throws ReflectiveOperationException {
        this.scheduler = scheduler;
        this.millis = millis;
        field = TaskSchedulerImpl.class.getDeclaredField("schedulableBuilder");
        field.setAccessible(true);
        stock = (SchedulableBuilder) field.get(scheduler);
    }

    /** Begins. From now on known is to be called for stages that locality begins. */
    void begin(MemoryLocality with) throws ReflectiveOperationException {
        synchronized (scheduler) {
            locality = with;
            field.set(scheduler, this);
        }
    }

    /** The stages that wait here. */
    Pool held() {
        return held;
    }

    @Override
    public Pool rootPool() {
        return stock.rootPool();
    }

    @Override
    public void buildPools() {
        stock.buildPools();
    }

    @Override
    public void addTaskSetManager(Schedulable stage, Properties properties) {
        if (!(stage instanceof TaskSetManager) || !hold((TaskSetManager) stage, properties)) {
            stock.addTaskSetManager(stage, properties);
        }
    }

    /** Returns whether a stage waits here. */
    private boolean hold(TaskSetManager stage, Properties properties) {
        try {
            if (!TaskSetOrder.readsBlocks(stage)) {
                return false;
            }
            timer.schedule(() -> admit(stage), millis, TimeUnit.MILLISECONDS);
        } catch (ReflectiveOperationException | RuntimeException | LinkageError e) { // the scheduler must not fail because of this
            locality.doubt(e);
            return false;
        }
        waiting.put(stage, Optional.ofNullable(properties));
        held.addSchedulable(stage);
        locality.look(); // it begins there
        return true;
    }

    /** All is known of a stage that is to be known. Does not wait. */
    void known(TaskSetManager stage) {
        try {
            timer.execute(() -> admit(stage));
        } catch (RejectedExecutionException e) {
            return; // closed, which has admitted it
        }
    }

    private void admit(TaskSetManager stage) {
        synchronized (scheduler) {
            Optional<Properties> properties = waiting.remove(stage);
            // What was cancelled meanwhile Spark has taken out of its pool.
            if (properties == null || !held.schedulableQueue().contains(stage)) {
                return;
            }
            held.removeSchedulable(stage);
            stock.addTaskSetManager(stage, properties.orElse(null));
            stage.recomputeLocality(); // executors have come and gone
        }
        scheduler.backend().reviveOffers();
    }

    /** Spark goes on as it comes. */
    @Override
    public void close() throws IllegalAccessException {
        timer.shutdownNow();
        synchronized (scheduler) {
            field.set(scheduler, stock);
            for (TaskSetManager stage : waiting.keySet().toArray(TaskSetManager[]::new)) {
                admit(stage);
            }
        }
    }
}
