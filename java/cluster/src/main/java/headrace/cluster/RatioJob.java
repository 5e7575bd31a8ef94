package headrace.cluster;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.CombineFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.CombineFileSplit;
import org.apache.hadoop.mapreduce.lib.output.TextOutputFormat;

/**
 * A job that reads all of its input, gives a part of it from map to reduce tasks and writes a part, as SWIM's WorkGen does
 * for each job of a trace. A map task has several blocks and reads some of them at a time, which on a large cluster would
 * be as many tasks. How long the reading of each takes is written to standard output.
 */
final class RatioJob {
  /** Properties: bytes shuffled and written for each byte read, and how many blocks a task reads at a time. */
  static final String SHUFFLE = "headrace.ratio.shuffle";
  static final String OUTPUT = "headrace.ratio.output";
  static final String READERS = "headrace.ratio.readers";

  /** What has been read, and the sum of the checksums of all files: the job's answer. */
  enum Count { BYTES, SUM }

  /** A file is read in pieces, each of which becomes a record. */
  private static final int PIECE = 16 << 10;

  private RatioJob() {}

  static void configure(Job job) {
    job.setInputFormatClass(Files.class);
    job.setMapperClass(Read.class);
    job.setReducerClass(Write.class);
    job.setOutputFormatClass(TextOutputFormat.class);
    job.setMapOutputKeyClass(BytesWritable.class);
    job.setMapOutputValueClass(Text.class);
    job.setOutputKeyClass(NullWritable.class);
    job.setOutputValueClass(Text.class);
  }

  /** Gives each task several files, which are of a block each, as far as possible on the same machine. */
  public static final class Files extends CombineFileInputFormat<BytesWritable, BytesWritable> {
    @Override
    public RecordReader<BytesWritable, BytesWritable> createRecordReader(InputSplit split, TaskAttemptContext context) {
      return new Nothing();
    }
  }

  /** The mapper reads by itself. */
  private static final class Nothing extends RecordReader<BytesWritable, BytesWritable> {
    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) {}

    @Override
    public boolean nextKeyValue() {
      return false;
    }

    @Override
    public BytesWritable getCurrentKey() {
      return null;
    }

    @Override
    public BytesWritable getCurrentValue() {
      return null;
    }

    @Override
    public float getProgress() {
      return 0;
    }

    @Override
    public void close() {}
  }

  /** Reads. */
  public static final class Read extends Mapper<BytesWritable, BytesWritable, BytesWritable, Text> {
    @Override
    public void run(Context context) throws IOException, InterruptedException {
      CombineFileSplit split = (CombineFileSplit) context.getInputSplit();
      ExecutorService readers = Executors.newFixedThreadPool(context.getConfiguration().getInt(READERS, 1));
      try {
        List<Callable<Void>> all = IntStream.range(0, split.getNumPaths())
            .<Callable<Void>>mapToObj(i -> () -> read(split.getPath(i), split.getOffset(i), (int) split.getLength(i), context))
            .toList();
        for (Future<Void> done : readers.invokeAll(all)) {
          done.get();
        }
      } catch (ExecutionException e) {
        throw new IOException(e.getCause());
      } finally {
        readers.shutdownNow();
      }
    }

    private static Void read(Path path, long offset, int length, Context context) throws IOException, InterruptedException {
      byte[] block = new byte[length];
      long began = System.nanoTime();
      try (FSDataInputStream in = path.getFileSystem(context.getConfiguration()).open(path)) {
        in.readFully(offset, block);
      } catch (EOFException e) {
        throw new IOException(path + " is shorter than " + (offset + length), e);
      }
      System.out.printf("block %.6f%n", (System.nanoTime() - began) / 1e9);
      CRC32 sum = new CRC32();
      sum.update(block);
      synchronized (context) {
        context.getCounter(Count.BYTES).increment(length);
        context.getCounter(Count.SUM).increment(sum.getValue());
        emit(path, offset, block, context);
      }
      return null;
    }

    private static void emit(Path path, long offset, byte[] block, Context context) throws IOException, InterruptedException {
      Configuration conf = context.getConfiguration();
      double share = conf.getDouble(context.getNumReduceTasks() > 0 ? SHUFFLE : OUTPUT, 0);
      for (int at = 0; at < block.length; at += PIECE) {
        int length = (int) (share * Math.min(PIECE, block.length - at));
        if (length > 0) {
          // Different for all pieces, so that the order is always the same.
          byte[] key = ByteBuffer.allocate(16).putInt(path.toString().hashCode() * 0x9E3779B1).putInt(at)
              .putLong(offset).array();
          Text value = new Text();
          value.set(block, at, length);
          context.write(context.getNumReduceTasks() > 0 ? new BytesWritable(key) : null, value);
        }
      }
    }
  }

  /** Writes. */
  public static final class Write extends Reducer<BytesWritable, Text, NullWritable, Text> {
    @Override
    protected void reduce(BytesWritable key, Iterable<Text> values, Context context)
        throws IOException, InterruptedException {
      Configuration conf = context.getConfiguration();
      double share = conf.getDouble(OUTPUT, 0) / conf.getDouble(SHUFFLE, 1);
      for (Text value : values) {
        int length = (int) (share * value.getLength());
        if (length > 0) {
          Text part = new Text();
          part.set(value.getBytes(), 0, length);
          context.write(NullWritable.get(), part);
        }
      }
    }
  }
}
