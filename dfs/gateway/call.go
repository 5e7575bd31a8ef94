package gateway

import (
	"context"
	"errors"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace/hdfs/ipc"
	"headrace/meta"
)

// A call is one call of a client.
type call struct {
	*Gateway
	*ipc.Call
	ctx context.Context
	by  meta.Caller
}

// A method serves a call.
type method func(*call, proto.Message) (proto.Message, error)

// A table has methods by their name.
type table map[string]method

// on makes a method of a function of the method's own messages.
func on[Q, A proto.Message](f func(*call, Q) (A, error)) method {
	return func(c *call, q proto.Message) (proto.Message, error) { return f(c, q.(Q)) }
}

// service serves the methods of tables.
func (g *Gateway) service(d protoreflect.ServiceDescriptor, tables ...table) *ipc.Service {
	all := table{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return ipc.NewService(d, func(ctx context.Context, in *ipc.Call, q proto.Message) (proto.Message, error) {
		m := all[in.Method]
		if m == nil {
			return nil, ipc.NoMethod(in)
		}
		began := time.Now()
		if err := short(q); err != nil {
			return nil, err
		}
		a, err := m(&call{g, in, ctx, g.callers.Of(in.User.Name)}, q)
		g.measures.done(in.Method, time.Since(began), err)
		return a, thrown(err)
	})
}

// mostText is how many bytes a path, or any other text of a request, may have: more than four for each
// character of the longest path that HDFS makes. To look up a path takes many times its length.
const mostText = 32 << 10

// short refuses requests with texts that are too long to be looked at.
func short(q proto.Message) (err error) {
	check := func(f protoreflect.FieldDescriptor, s string) bool {
		if len(s) > mostText {
			err = ipc.Throw(ipc.ClassIO, "%s has %d bytes, more than %d", f.Name(), len(s), mostText)
		}
		return err == nil
	}
	q.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() != protoreflect.StringKind:
		case !f.IsList():
			return check(f, v.String())
		default:
			for i := range v.List().Len() {
				if !check(f, v.List().Get(i).String()) {
					return false
				}
			}
		}
		return true
	})
	return err
}

// thrown makes of what package meta refuses the exception that it is.
func thrown(err error) error {
	if e, ok := errors.AsType[*meta.Error](err); ok {
		return ipc.Throw(e.Class, "%s", e.Message)
	}
	return err
}

// do proposes a command, under a name by which it is known when the client calls again: nobody else
// has the same.
func (c *call) do(op meta.Op) (meta.Result, error) {
	m := meta.Command{Call: int64(c.ID), Caller: c.by, Op: op}
	if c.Client != (ipc.ClientID{}) {
		m.Client = string(c.Client[:]) + c.Method + "\x00" + c.by.User
	}
	return c.node.Propose(c.ctx, m)
}

// did is do for commands that return nothing.
func (c *call) did(op meta.Op) error {
	_, err := c.do(op)
	return err
}

// flag is do for commands that say whether they did anything.
func (c *call) flag(op meta.Op) (*bool, error) {
	r, err := c.do(op)
	if err != nil {
		return nil, err
	}
	f, ok := r.(*meta.Flag)
	return proto.Bool(ok && bool(*f)), nil
}

// ask queries the state as the caller.
func (c *call) ask(f func(meta.Query) error) error { return c.node.Query(c.by, f) }

// walk is ask for what may look at much, as long as the caller is there.
func (c *call) walk(f func(meta.Query) error) error { return c.node.Walk(c.ctx, c.by, f) }

// privileged refuses who may not do all, as HDFS does.
func (c *call) privileged() error {
	if c.by.Super {
		return nil
	}
	return ipc.Throw(ipc.ClassAccess, "Access denied for user %s. Superuser privilege is required", c.by.User)
}
