package headrace.cluster;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;

/** The contents of files: pieces that differ from each other, and can be told again from file and place. */
final class Pieces {
  static final int SIZE = 64 << 10;
  private static final byte[] PATTERN = new byte[SIZE];

  static {
    new Random(1).nextBytes(PATTERN);
  }

  private final byte[] piece = PATTERN.clone();
  private final long file;

  Pieces(String path) {
    this.file = path.hashCode();
  }

  /** The one at that place, which is a multiple of SIZE; valid until the next call. */
  byte[] at(long place) {
    ByteBuffer.wrap(piece).putLong(file).putLong(place);
    return piece;
  }

  /** Fails when so many bytes are not those at that place. */
  void check(byte[] got, int length, long place) throws IOException {
    byte[] want = at(place);
    if (!Arrays.equals(got, 0, length, want, 0, length)) {
      throw new IOException("the " + length + " bytes at " + place + " are not what was written there");
    }
  }
}
