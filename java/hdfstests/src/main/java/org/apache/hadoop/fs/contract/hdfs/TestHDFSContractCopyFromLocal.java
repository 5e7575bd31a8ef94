package org.apache.hadoop.fs.contract.hdfs;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractCopyFromLocalTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** Has HDFS go through Hadoop's contract of copies from local files, which its own tests leave out. */
public class TestHDFSContractCopyFromLocal extends AbstractContractCopyFromLocalTest {
  @BeforeAll
  public static void createCluster() throws IOException {
    HDFSContract.createCluster();
  }

  @AfterAll
  public static void teardownCluster() throws IOException {
    HDFSContract.destroyCluster();
  }

  @Override
  protected AbstractFSContract createContract(Configuration conf) {
    return new HDFSContract(conf);
  }
}
