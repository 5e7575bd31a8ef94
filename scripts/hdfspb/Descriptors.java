import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.thirdparty.protobuf.DescriptorProtos.FileDescriptorProto;
import org.apache.hadoop.thirdparty.protobuf.DescriptorProtos.FileDescriptorSet;
import org.apache.hadoop.thirdparty.protobuf.Descriptors.FileDescriptor;

/** Writes the descriptors of HDFS's protocols, as Hadoop's classes have them, as a FileDescriptorSet. */
class Descriptors {
  private static final String[] ROOTS = {
    "ipc.protobuf.RpcHeaderProtos", "ipc.protobuf.ProtobufRpcEngine2Protos",
    "ipc.protobuf.IpcConnectionContextProtos", "ipc.protobuf.ProtocolInfoProtos", "ha.proto.HAServiceProtocolProtos",
    "tools.proto.GetUserMappingsProtocolProtos", "hdfs.protocol.proto.ClientNamenodeProtocolProtos",
    "hdfs.protocol.proto.ClientDatanodeProtocolProtos", "hdfs.protocol.proto.DataTransferProtos",
  };

  public static void main(String[] args) throws Exception {
    Map<String, FileDescriptorProto> files = new LinkedHashMap<>();
    for (String root : ROOTS) {
      add(files, (FileDescriptor) Class.forName("org.apache.hadoop." + root).getMethod("getDescriptor").invoke(null));
    }
    FileDescriptorSet.newBuilder().addAllFile(files.values()).build().writeTo(System.out);
  }

  /** Adds a file after those that it needs. */
  private static void add(Map<String, FileDescriptorProto> files, FileDescriptor f) {
    f.getDependencies().forEach(d -> add(files, d));
    files.put(f.getName(), f.toProto());
  }
}
