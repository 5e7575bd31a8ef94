package serve

import (
	"context"

	"connectrpc.com/connect"
)

// Interceptor lets in whom the daemon serves, and gives errors of handlers the codes
// of their kinds; see Coded.
func Interceptor(others ...Kind) connect.Interceptor { return interceptor(others) }

type interceptor []Kind

// WrapUnary wraps handlers with one answer.
func (others interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		if err := mayAsk(ctx); err != nil {
			return nil, err
		}
		res, err := next(ctx, q)
		return res, Coded(err, others...)
	}
}

// WrapStreamingHandler wraps handlers with many.
func (others interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := mayAsk(ctx); err != nil {
			return err
		}
		return Coded(next(ctx, conn), others...)
	}
}

// WrapStreamingClient wraps nothing.
func (interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
