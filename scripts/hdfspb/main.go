package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// goPackage is where the code belongs.
const goPackage = "headrace/hdfs/pb"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "hdfspb: want PROTOC-GEN-GO DIRECTORY")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "hdfspb:", err)
		os.Exit(1)
	}
}

func generate(plugin, dir string, in io.Reader) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(b, &set); err != nil {
		return fmt.Errorf("the descriptors: %w", err)
	}
	if b, err = proto.Marshal(request(set.File)); err != nil {
		return err
	}
	cmd := exec.Command(plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(b), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	var made pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &made); err != nil {
		return fmt.Errorf("the answer of %s: %w", plugin, err)
	}
	if made.Error != nil {
		return errors.New(made.GetError())
	}
	for _, f := range made.File {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f.GetName())), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// request asks for the code of all files, as one package.
func request(files []*descriptorpb.FileDescriptorProto) *pluginpb.CodeGeneratorRequest {
	r := &pluginpb.CodeGeneratorRequest{ProtoFile: files}
	parameters := []string{"paths=source_relative"}
	for _, f := range files {
		r.FileToGenerate = append(r.FileToGenerate, f.GetName())
		parameters = append(parameters, "M"+f.GetName()+"="+goPackage)
	}
	r.Parameter = proto.String(strings.Join(parameters, ","))
	return r
}
