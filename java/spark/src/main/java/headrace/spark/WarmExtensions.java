package headrace.spark;

import headrace.locality.LocalityInputs;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Sees the plans of queries before they run, and changes none. Spark SQL finds it by itself; without {@link WarmPlugin}
 * and {@link MemoryLocalityPlugin} it does nothing. With adaptive execution it sees the plan as a whole among the rules that prepare stages, without
 * among those for columns, each of which is not there in the other case or comes too late.
 */
public final class WarmExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit>
        implements SparkSessionExtensionsProvider {
    private static final Logger LOG = LoggerFactory.getLogger(WarmExtensions.class);
    /** Of all applications of this process: Spark gives a number to one query only. */
    private static final SeenScans SEEN = new SeenScans();

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        extensions.injectQueryStagePrepRule(function(session -> new Look()));
        extensions.injectColumnar(function(session -> new ColumnarRule() {
            @Override
            public Rule<SparkPlan> preColumnarTransitions() {
                return new Look();
            }
        }));
        return BoxedUnit.UNIT;
    }

    private static <A, B> AbstractFunction1<A, B> function(Function<A, B> f) {
        return new AbstractFunction1<>() {
            @Override
            public B apply(A argument) {
                return f.apply(argument);
            }
        };
    }

    /** A rule that leaves plans as they are. */
    private static final class Look extends Rule<SparkPlan> {
        @Override
        public SparkPlan apply(SparkPlan plan) {
            try {
                look(plan);
            } catch (RuntimeException | LinkageError e) {
                LOG.debug("It is not known what a query reads", e);
            }
            return plan;
        }

        private static void look(SparkPlan plan) {
            AppInputs warm = WarmDriver.current();
            LocalityInputs locality = MemoryLocalityDriver.current();
            Option<SparkContext> spark = SparkContext$.MODULE$.getActive();
            if (warm == null && locality == null || spark.isEmpty()) {
                return;
            }
            String query = spark.get().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
            // Without a number it is only explained.
            List<PlanFiles.Scan> scans = query == null ? List.of() : SEEN.first(query, PlanFiles.scans(plan));
            if (scans.isEmpty()) {
                return;
            }
            if (locality != null) {
                locality.query(() -> PlanFiles.of(scans).keySet());
            }
            if (warm != null) {
                warm.query(query, () -> PlanFiles.of(scans));
            }
        }
    }
}
