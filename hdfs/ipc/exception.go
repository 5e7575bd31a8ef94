package ipc

import (
	"errors"
	"fmt"

	"headrace/hdfs/pb"
)

// Classes of exceptions that this package throws itself.
const (
	ClassIO           = "java.io.IOException"
	ClassAccess       = "org.apache.hadoop.security.AccessControlException"
	ClassUnauthorized = "org.apache.hadoop.security.authorize.AuthorizationException"
	ClassNoProtocol   = "org.apache.hadoop.ipc.RpcNoSuchProtocolException"
	ClassNoMethod     = "org.apache.hadoop.ipc.RpcNoSuchMethodException"
	ClassServer       = "org.apache.hadoop.ipc.RpcServerException"
	ClassVersion      = "org.apache.hadoop.ipc.RPC$VersionMismatch"
)

// An Exception is an error that has a Java class, by which Hadoop's client makes one of its
// own: a RemoteException, which it unwraps where it knows the class.
type Exception struct {
	// Class is the full name, such as java.io.FileNotFoundException.
	Class   string
	Message string
	// Code tells what kind of error it is; 0 is one of the application.
	Code pb.RpcResponseHeaderProto_RpcErrorCodeProto
	// Fatal: the connection ends with it.
	Fatal bool
}

// Throw makes an exception of the application.
func Throw(class, format string, args ...any) *Exception {
	return &Exception{Class: class, Message: fmt.Sprintf(format, args...)}
}

func (e *Exception) Error() string { return e.Class + ": " + e.Message }

// ExceptionOf returns the exception that an error is or wraps. Any other error is an IOException.
func ExceptionOf(err error) *Exception {
	if e, ok := errors.AsType[*Exception](err); ok {
		return e
	}
	return &Exception{Class: ClassIO, Message: err.Error()}
}

// response returns the header that tells a client of an exception.
func (e *Exception) response() *pb.RpcResponseHeaderProto {
	h := &pb.RpcResponseHeaderProto{
		Status:             pb.RpcResponseHeaderProto_ERROR.Enum(),
		ExceptionClassName: &e.Class,
		ErrorMsg:           &e.Message,
		ErrorDetail:        pb.RpcResponseHeaderProto_ERROR_APPLICATION.Enum(),
	}
	if e.Code != 0 {
		h.ErrorDetail = &e.Code
	}
	if e.Fatal {
		h.Status = pb.RpcResponseHeaderProto_FATAL.Enum()
	}
	return h
}

// fatal makes an exception with which the connection ends.
func fatal(class string, code pb.RpcResponseHeaderProto_RpcErrorCodeProto, format string, args ...any) *Exception {
	return &Exception{Class: class, Message: fmt.Sprintf(format, args...), Code: code, Fatal: true}
}
