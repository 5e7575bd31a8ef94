package headrace.spark;

import headrace.locality.LocalityInputs;
import headrace.locality.ResidentShares;
import headrace.locality.StageInputs;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.Stage;
import scala.Option;

/**
 * Stages that Spark's listener bus tells of, a little before their first tasks are offered executors: so what is in
 * memory counts for these, too, if it is known by then. Safe for use by several threads.
 */
final class StagesAhead extends SparkListener {
    /** Remembered at a time; stages beyond that begin in Spark's own order. */
    private static final int MOST = 1000;

    private final SparkContext spark;
    private final LocalityInputs inputs;
    private final Map<Integer, Ahead> stages = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Integer, Ahead> eldest) {
            boolean over = size() > MOST;
            eldest.getValue().over |= over;
            return over;
        }
    };

    StagesAhead(SparkContext spark, LocalityInputs inputs) {
        this.spark = spark;
        this.inputs = inputs;
    }

    /** One that computes all of its partitions, as nearly all do. */
    private static final class Ahead implements StageInputs.Stage {
        private final Partition[] partitions;
        private volatile ResidentShares shares;
        private volatile boolean over;

        Ahead(Partition[] partitions) {
            this.partitions = partitions;
        }

        @Override
        public int tasks() {
            return partitions.length;
        }

        @Override
        public void ranges(int task, StageInputs.Taker taker) {
            InputRanges.of(partitions[task], taker);
        }

        @Override
        public void publish(ResidentShares now) {
            shares = now;
        }

        @Override
        public boolean over() {
            return over;
        }
    }

    @Override
    public void onStageSubmitted(SparkListenerStageSubmitted event) {
        try {
            int id = event.stageInfo().stageId();
            Option<Stage> stage = spark.dagScheduler().stageIdToStage().get(id);
            if (stage.isEmpty() || event.stageInfo().numTasks() != stage.get().rdd().partitions().length) {
                return;
            }
            Ahead ahead = new Ahead(stage.get().rdd().partitions());
            synchronized (stages) {
                stages.put(id, ahead);
            }
            inputs.add(ahead);
        } catch (RuntimeException | LinkageError e) {
            inputs.doubt(e);
        }
    }

    /** The stage has begun. Publishes what is known of it. Waits for nothing. */
    void begin(TaskSetOrder order) {
        Ahead ahead = take(order.stageId());
        if (ahead != null && ahead.shares != null && ahead.tasks() == order.tasks() && !order.cached()) {
            order.publish(ahead.shares);
        }
        inputs.add(order);
    }

    private Ahead take(int id) {
        synchronized (stages) {
            Ahead ahead = stages.remove(id);
            if (ahead != null) {
                ahead.over = true;
            }
            return ahead;
        }
    }

    @Override
    public void onStageCompleted(SparkListenerStageCompleted event) {
        take(event.stageInfo().stageId());
    }
}
