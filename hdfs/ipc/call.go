package ipc

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"headrace/hdfs/pb"
)

// A ClientID tells clients apart, as they choose it; zero is one that has none.
type ClientID [idLength]byte

func (c ClientID) String() string { return hex.EncodeToString(c[:]) }

// A User is who calls, as the client says: nothing has proved it but Server.Prove.
type User struct {
	Name string
	// Real is who acts for Name as a proxy user, if anybody does.
	Real string
}

// A Call is one call of a client.
type Call struct {
	Protocol string // the Java name of the protocol's interface
	Version  uint64 // of the protocol
	Method   string
	Request  []byte // the message, encoded; nobody else has it

	// Client and ID are the same when a client calls again because it has heard nothing;
	// Retry counts these times.
	Client ClientID
	ID     int32
	Retry  int32

	User    User
	Remote  netip.AddrPort // of the client
	Local   netip.AddrPort // to which the client has connected; zero for an end without a port
	Context string         // what the client wants to be noted, such as a job's id

	large large
}

// A Handler serves a protocol. Calls come at the same time. ctx ends with the connection
// of the client, and with the server.
type Handler interface {
	Serve(ctx context.Context, c *Call) (proto.Message, error)
}

// A HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, c *Call) (proto.Message, error)

// Serve calls the function.
func (f HandlerFunc) Serve(ctx context.Context, c *Call) (proto.Message, error) { return f(ctx, c) }

// A Service serves the methods of a protocol's descriptor: it decodes the request, and refuses
// methods that there are none of.
type Service struct {
	// Enter has a call that came by another way than a Server's reserve memory beside those of that server; what it returns ends
	// that. nil: there is no bound.
	Enter func(c *Call) (leave func())

	methods protoreflect.MethodDescriptors
	name    string
	serve   func(ctx context.Context, c *Call, request proto.Message) (proto.Message, error)
}

// NewService returns the Handler of a protocol. serve answers with the message that the
// descriptor names for the method.
func NewService(d protoreflect.ServiceDescriptor, serve func(ctx context.Context, c *Call, request proto.Message) (proto.Message, error)) *Service {
	return &Service{methods: d.Methods(), name: string(d.Name()), serve: serve}
}

// Answer decodes the answer of a method, as another server of the protocol has encoded it.
func (s *Service) Answer(method string, answer []byte) (proto.Message, error) {
	m := s.methods.ByName(protoreflect.Name(method))
	if m == nil {
		return nil, fmt.Errorf("there is no method %.64q", method)
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		return nil, err
	}
	a := t.New().Interface()
	return a, proto.Unmarshal(answer, a)
}

// Serve is that of Handler.
func (s *Service) Serve(ctx context.Context, c *Call) (proto.Message, error) {
	m := s.methods.ByName(protoreflect.Name(c.Method))
	if m == nil {
		return nil, NoMethod(c)
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		return nil, err
	}
	q := t.New().Interface()
	if err := proto.Unmarshal(c.Request, q); err != nil {
		return nil, &Exception{Class: ClassServer, Message: "the request of " + c.Method + ": " + err.Error(),
			Code: pb.RpcResponseHeaderProto_FATAL_DESERIALIZING_REQUEST}
	}
	answer, err := s.serve(ctx, c, q)
	if err != nil {
		return nil, err
	}
	if answer == nil || answer.ProtoReflect().Descriptor() != m.Output() {
		return nil, Throw(ClassServer, "%s answers with %T, not with %s", c.Method, answer, m.Output().Name())
	}
	return answer, nil
}

// NoMethod is the error of a method that is not served.
func NoMethod(c *Call) *Exception {
	return &Exception{Class: ClassNoMethod, Message: "Unknown method " + c.Method + " called on " + c.Protocol + " protocol.",
		Code: pb.RpcResponseHeaderProto_ERROR_NO_SUCH_METHOD}
}
