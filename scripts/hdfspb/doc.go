// Command hdfspb reads a FileDescriptorSet, as Descriptors.java writes it, and has
// protoc-gen-go write Go code for all of its files, as one package. It does what protoc does
// after it has read .proto files: scripts/generate-hdfs runs it.
//
//	hdfspb PROTOC-GEN-GO DIRECTORY < SET
package main
