// Package pb has the messages and services of HDFS's protocols: Hadoop RPC's headers,
// ClientProtocol (ClientNamenodeProtocol), ClientDatanodeProtocol, HAServiceProtocol,
// GetUserMappingsProtocol, and data transfer.
//
// protoc-gen-go has written it from the descriptors in Hadoop 3.5.0's jars
// (scripts/generate-hdfs), which are those of Hadoop's .proto files: Copyright the Apache
// Software Foundation, Apache License 2.0, see NOTICE. Hadoop calls these files "private
// and stable": older and newer clients understand each other.
//
// Methods of a protocol are found by name in the descriptor of its service, as
// hdfs/ipc does: File_ClientNamenodeProtocol_proto.Services().
package pb
