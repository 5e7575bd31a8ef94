package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.ManagerClient;
import headrace.yarn.rm.Suspension.Phase;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Of a manager that says nothing, as one whose machine is off. */
class ResumesTest {
    @TempDir
    Path dir;

    @Test
    void oneThatIsNotAnsweredIsTheFailureOfAllThatWait() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        List<Socket> open = new ArrayList<>();
        try (FakeManager token = new FakeManager(dir); ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            Thread accepts = new Thread(() -> {
                try {
                    while (true) {
                        open.add(silent.accept());
                        calls.incrementAndGet();
                    }
                } catch (IOException e) {
                    return; // closed
                }
            });
            accepts.start();
            ManagerClient manager =
                new ManagerClient(URI.create("http://127.0.0.1:" + silent.getLocalPort()), token.tokenFile, null, Duration.ofSeconds(3));
            Resumes resumes = new Resumes(manager, TestScheduler.HURRIED);
            ApplicationAttemptId attempt = ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);
            List<Suspension> all = new ArrayList<>();
            long began = System.nanoTime();
            for (int i = 1; i <= 100; i++) {
                Suspension s = new Suspension(ContainerId.newContainerId(attempt, i), Phase.RESUMING, 1);
                resumes.deliver(s, true);
                assertNotEquals(0, s.undeliveredMs, "the time begins when it is to be told");
                all.add(s);
            }
            long took = System.nanoTime() - began;
            while (all.stream().anyMatch(s -> s.calling)) { // one after the other it would be five minutes
                Thread.sleep(5);
            }
            assertTrue(calls.get() <= 3 + took / 3_000_000_000L, calls + " calls"); // those that come after a silence are called again
            assertTrue(all.stream().noneMatch(s -> s.delivered));

            Suspension s = all.get(0);
            resumes.deliver(s, false);
            assertFalse(s.calling, "nobody is there who could be told");
            resumes.stop();
            silent.close();
            accepts.join();
            assertEquals(calls.get(), open.size());
            for (Socket socket : open) {
                socket.close();
            }
        }
    }
}
