package headrace.cluster;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;

/** Makes files that jobs read, the same from the same seed. */
final class InputMaker {
  private static final int WORDS = 5000;
  private static final int LINE = 80;

  private final FileSystem fs;
  private final Order order;
  private final Random random;
  private final short replication;

  InputMaker(FileSystem fs, Order order) {
    this.fs = fs;
    this.order = order;
    this.random = new Random(order.seed());
    this.replication = Short.parseShort(order.properties().getOrDefault("dfs.replication", "1"));
  }

  void make() throws IOException {
    Path path = new Path(order.inputs().get(0));
    switch (order.kind()) {
      case "make-bytes" -> bytes(path);
      case "make-text" -> text(path);
      case "make-sequence" -> sequence(path);
      default -> throw new IllegalArgumentException(order.kind());
    }
  }

  private void bytes(Path path) throws IOException {
    try (FSDataOutputStream out = fs.create(path, replication)) {
      byte[] piece = new byte[64 << 10];
      for (long left = order.bytes(); left > 0; left -= piece.length) {
        random.nextBytes(piece);
        out.write(piece, 0, (int) Math.min(left, piece.length));
      }
    }
  }

  /** Lines of words, of which some are more frequent than others, as in a text; exactly so many bytes. */
  private void text(Path path) throws IOException {
    try (FSDataOutputStream out = fs.create(path, replication)) {
      for (long left = order.bytes(); left > 0;) {
        byte[] line = line().getBytes(StandardCharsets.US_ASCII);
        int length = (int) Math.min(left, line.length);
        line[length - 1] = '\n';
        out.write(line, 0, length);
        left -= length;
      }
    }
  }

  /** Random text as RandomTextWriter makes it, with keys of 10 to 100 bytes and values of up to 1000; about so many bytes. */
  private void sequence(Path path) throws IOException {
    try (SequenceFile.Writer out = SequenceFile.createWriter(fs.getConf(), SequenceFile.Writer.file(path),
        SequenceFile.Writer.keyClass(Text.class), SequenceFile.Writer.valueClass(Text.class),
        SequenceFile.Writer.replication(replication), SequenceFile.Writer.compression(SequenceFile.CompressionType.NONE))) {
      while (out.getLength() < order.bytes()) {
        out.append(new Text(words(10 + random.nextInt(90))), new Text(words(random.nextInt(1000))));
      }
    }
  }

  private String line() {
    return words(LINE) + "\n";
  }

  private String words(int length) {
    StringBuilder text = new StringBuilder(length + 16);
    while (text.length() < length) {
      int rank = (int) Math.exp(random.nextDouble() * Math.log(WORDS));
      text.append(Integer.toString(rank * 7919, 36)).append(' ');
    }
    return text.toString();
  }
}
