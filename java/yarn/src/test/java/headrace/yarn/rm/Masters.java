package headrace.yarn.rm;

import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;

/** Starts masters for which there is no room at first. */
record Masters(TestCluster cluster, MockNM node) {

    MockAM submit(String queue, int priority) throws Exception {
        RMApp app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
            .createWithMemory(TestCluster.GB, cluster.rm).withAppName(queue).withUser("user").withQueue(queue)
            .withMaxAppAttempts(2).withAppPriority(Priority.newInstance(priority)).build());
        RMAppAttempt attempt = app.getCurrentAppAttempt();
        return new MockAM(cluster.rm.getRMContext(), cluster.rm.getApplicationMasterService(), attempt.getAppAttemptId());
    }

    MockAM start(String queue, int priority) throws Exception {
        MockAM am = submit(queue, priority);
        RMApp app = cluster.rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId());
        cluster.await("master of " + queue, () -> app.getCurrentAppAttempt().getState() == RMAppAttemptState.ALLOCATED);
        cluster.rm.sendAMLaunched(am.getApplicationAttemptId());
        am.registerAppAttempt();
        return am;
    }
}
