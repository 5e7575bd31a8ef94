package headrace.sparkyarn;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * Adds numbers up, slowly. Arguments: how many, the milliseconds for each, and a file: as long as it is there nothing is
 * added. Writes to standard output "task begins" in the task's executor, and the sum in the driver.
 */
public final class SlowSum {
    private SlowSum() { }

    public static void main(String[] args) {
        long count = Long.parseLong(args[0]);
        long pause = Long.parseLong(args[1]);
        String hold = args[2];
        try (JavaSparkContext spark = new JavaSparkContext(new SparkConf().setAppName("SlowSum"))) {
            long sum = spark.parallelize(List.of(count), 1).map(n -> add(n, pause, hold)).reduce(Long::sum);
            System.out.println("the sum is " + sum);
        }
    }

    private static long add(long count, long pause, String hold) {
        System.out.println("task begins");
        while (Files.exists(Path.of(hold))) {
            pause(50);
        }
        return LongStream.rangeClosed(1, count).peek(n -> pause(pause)).sum();
    }

    private static void pause(long milliseconds) {
        try {
            TimeUnit.MILLISECONDS.sleep(milliseconds);
        } catch (InterruptedException e) {
            throw new IllegalStateException("the task was cancelled", e);
        }
    }
}
