import java.util.*;
import java.util.concurrent.*;

/** A JVM with a pool, a collector at work, and a shutdown hook. */
public class Tree {
  public static void main(String[] args) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(3);
    Map<Integer, long[]> kept = new TreeMap<>();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
    for (int n = 1; n <= 25; n++) {
      final int seed = n;
      List<Future<Long>> parts = new ArrayList<>();
      for (int p = 0; p < 3; p++) {
        final int part = p;
        parts.add(pool.submit(() -> {
          Random r = new Random(seed * 31 + part);
          long sum = 0;
          for (int i = 0; i < 20000; i++) sum += Integer.toString(r.nextInt()).hashCode();
          return sum;
        }));
      }
      long sum = 0;
      for (Future<Long> f : parts) sum += f.get();
      kept.put(n, new long[10000]);
      kept.get(n)[n] = sum;
      System.out.println("step " + n + " " + sum);
      Thread.sleep(20);
      while (n == 20 && !new java.io.File(System.getenv("GO_ON")).exists()) Thread.sleep(10);
    }
    long all = 0;
    for (Map.Entry<Integer, long[]> e : kept.entrySet()) all ^= e.getValue()[e.getKey()];
    pool.shutdown();
    System.out.println("all " + all + " pid " + (ProcessHandle.current().pid() == Long.parseLong(
        new java.io.File("/proc/self").getCanonicalFile().getName())));
    System.exit(5);
  }
}
