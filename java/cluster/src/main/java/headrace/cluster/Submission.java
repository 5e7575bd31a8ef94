package headrace.cluster;

import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.examples.Sort;
import org.apache.hadoop.examples.WordCount;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Counters;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.input.CombineSequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.CombineTextInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.lib.output.TextOutputFormat;

/** Submits one job and waits for it. */
final class Submission {
  private static final long POLL_MS = 50;

  private final Configuration conf;
  private final Order order;

  Submission(Configuration conf, Order order) {
    this.conf = new Configuration(conf);
    this.order = order;
    order.properties().forEach(this.conf::set);
    this.conf.set("mapreduce.job.name", order.name());
  }

  /** Tells how long it took from the moment at which somebody has decided to submit it, and its answer. */
  void run(Events events) throws Exception {
    long began = System.nanoTime();
    Job job = order.kind().equals("sort") ? sort() : submitted();
    while (!job.isComplete()) {
      Thread.sleep(POLL_MS);
    }
    double took = (System.nanoTime() - began) / 1e9;
    events.tell("finished", "application", job.getJobID().toString().replace("job", "application"),
        "good", job.isSuccessful(), "took", took, "uber", job.isUber(), "answer", job.isSuccessful() ? answer(job) : "");
  }

  /** Hadoop's own example waits for its job itself. It writes text: sequence files have marks that are never the same. */
  private Job sort() throws Exception {
    Sort<Text, Text> sort = new Sort<>();
    sort.setConf(conf);
    sort.run(new String[] {"-r", Integer.toString(order.reduces()), "-inFormat", CombineSequenceFileInputFormat.class.getName(),
        "-outFormat", TextOutputFormat.class.getName(), "-outKey", Text.class.getName(), "-outValue", Text.class.getName(),
        String.join(",", order.inputs()), order.output()});
    return sort.getResult();
  }

  private Job submitted() throws Exception {
    Job job = Job.getInstance(conf);
    job.setJarByClass(Submission.class);
    switch (order.kind()) {
      case "ratios" -> RatioJob.configure(job);
      case "wordcount" -> {
        job.setJarByClass(WordCount.class);
        job.setInputFormatClass(CombineTextInputFormat.class);
        job.setMapperClass(WordCount.TokenizerMapper.class);
        job.setCombinerClass(WordCount.IntSumReducer.class);
        job.setReducerClass(WordCount.IntSumReducer.class);
        job.setOutputKeyClass(Text.class);
        job.setOutputValueClass(IntWritable.class);
      }
      default -> throw new IllegalArgumentException(order.kind());
    }
    job.setNumReduceTasks(order.reduces());
    FileInputFormat.setInputPaths(job, String.join(",", order.inputs()));
    FileOutputFormat.setOutputPath(job, new Path(order.output()));
    job.submit();
    return job;
  }

  /** What must be the same whenever the job runs: what it says to have read, and HDFS's checksums of what it has written. */
  private String answer(Job job) throws IOException {
    Map<String, String> parts = new TreeMap<>();
    FileSystem fs = FileSystem.get(conf);
    for (FileStatus file : fs.listStatus(new Path(order.output()), path -> !path.getName().startsWith("_"))) {
      parts.put(file.getPath().getName(), file.getLen() + " " + fs.getFileChecksum(file.getPath()));
    }
    Counters counters = job.getCounters();
    for (RatioJob.Count count : RatioJob.Count.values()) {
      if (order.kind().equals("ratios")) {
        parts.put(count.name(), Long.toString(counters.findCounter(count).getValue()));
      }
    }
    return parts.toString();
  }
}
