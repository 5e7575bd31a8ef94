package pb

import (
	"errors"
	"os/exec"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"headrace/internal/testkit"
)

// TestGenerated compares the code with what Hadoop's jars give, which changes with Hadoop's version.
func TestGenerated(t *testing.T) {
	testkit.Long(t)
	cmd := exec.Command("scripts/generate-hdfs", "--check")
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServices: every method of every service has Go types for what it is asked and answers.
func TestServices(t *testing.T) {
	methods := map[string]int{}
	for _, file := range []protoreflect.FileDescriptor{File_ClientNamenodeProtocol_proto, File_ClientDatanodeProtocol_proto, File_HAServiceProtocol_proto} {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			methods[string(s.Name())] = s.Methods().Len()
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				for _, message := range []protoreflect.MessageDescriptor{m.Input(), m.Output()} {
					if _, err := protoregistry.GlobalTypes.FindMessageByName(message.FullName()); err != nil {
						t.Errorf("%s: %v", m.FullName(), err)
					}
				}
			}
		}
	}
	if methods["ClientNamenodeProtocol"] < 100 || methods["ClientDatanodeProtocolService"] < 8 || methods["HAServiceProtocolService"] < 4 {
		t.Errorf("methods: %v", methods)
	}
}
