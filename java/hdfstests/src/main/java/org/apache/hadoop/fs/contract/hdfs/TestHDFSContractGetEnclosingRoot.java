package org.apache.hadoop.fs.contract.hdfs;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractGetEnclosingRoot;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** Has HDFS go through Hadoop's contract of enclosing roots, which its own tests leave out. */
public class TestHDFSContractGetEnclosingRoot extends AbstractContractGetEnclosingRoot {
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
