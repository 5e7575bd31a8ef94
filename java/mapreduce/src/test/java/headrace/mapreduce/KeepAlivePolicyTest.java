package headrace.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.mapreduce.v2.app.rm.preemption.AMPreemptionPolicy;
import org.apache.hadoop.mapreduce.v2.app.rm.preemption.NoopAMPreemptionPolicy;
import org.apache.hadoop.util.ReflectionUtils;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.PreemptionMessage;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class KeepAlivePolicyTest {
    private static final List<String> CALLS = new ArrayList<>();

    /** The policy that is left to decide about preemption. */
    public static final class Inner extends NoopAMPreemptionPolicy {
        @Override
        public void init(AppContext context) {
            CALLS.add("init");
        }

        @Override
        public void preempt(Context context, PreemptionMessage requests) {
            CALLS.add("preempt");
        }

        @Override
        public boolean isPreempted(TaskAttemptId attempt) {
            return true;
        }
    }

    /** Of both policies of ours. */
    @Retention(RetentionPolicy.RUNTIME)
    @ParameterizedTest
    @ValueSource(classes = {KeepAlivePolicy.class, MemoryLocalityPolicy.class})
    private @interface Both { }

    @BeforeEach
    void setUp() {
        CALLS.clear();
    }

    private static AMPreemptionPolicy policy(Class<? extends AMPreemptionPolicy> type, Configuration conf) {
        return ReflectionUtils.newInstance(type, conf);
    }

    /** Of no application master that could be told anything. */
    private static AppContext context() {
        return (AppContext) Proxy.newProxyInstance(KeepAlivePolicyTest.class.getClassLoader(),
            new Class<?>[] {AppContext.class},
            (proxy, method, args) -> method.getName().equals("getApplicationID") ? ApplicationId.newInstance(1, 1) : null);
    }

    @Both
    void leavesPreemptionToTheConfiguredPolicy(Class<? extends AMPreemptionPolicy> type) {
        Configuration conf = new Configuration(false);
        conf.setClass(KeepAlivePolicy.INNER, Inner.class, AMPreemptionPolicy.class);
        AMPreemptionPolicy policy = policy(type, conf);
        policy.init(context());
        policy.preempt(null, null);
        assertTrue(policy.isPreempted(null));
        assertEquals(List.of("init", "preempt"), CALLS);
    }

    @Both
    void leavesPreemptionToTheStockPolicy(Class<? extends AMPreemptionPolicy> type) {
        AMPreemptionPolicy policy = policy(type, new Configuration(false));
        policy.init(context());
        policy.preempt(null, null);
        assertEquals(false, policy.isPreempted(null));
    }

    @Both
    void doesNotWrapItself(Class<? extends AMPreemptionPolicy> type) {
        Configuration conf = new Configuration(false);
        conf.setClass(KeepAlivePolicy.INNER, KeepAlivePolicy.class, AMPreemptionPolicy.class);
        assertEquals(false, policy(type, conf).isPreempted(null));
    }

    @Both
    void doesNotDisturbAMasterThatItDoesNotKnow(Class<? extends AMPreemptionPolicy> type) {
        policy(type, new Configuration(false)).init(context());
    }

    @Both
    void refusesAPolicyThatDoesNotExist(Class<? extends AMPreemptionPolicy> type) {
        Configuration conf = new Configuration(false);
        conf.set(KeepAlivePolicy.INNER, "no.such.Policy");
        RuntimeException e = assertThrows(RuntimeException.class, () -> policy(type, conf));
        assertTrue(e.getMessage().contains("no.such.Policy"), e.getMessage());
    }
}
