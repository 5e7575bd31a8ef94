package node

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"headrace/serve"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// forward passes on what users of this machine ask about inputs, as these users: the
// manager takes the node's word for who they are.
type forward struct {
	to wireconnect.InputServiceClient
}

var _ wireconnect.InputServiceHandler = forward{}

// Inputs answers requests about files of the cluster. It must stand behind
// serve.Interceptor. Every request is the manager's to answer, or to refuse.
func (a *Agent) Inputs() wireconnect.InputServiceHandler { return forward{a.inputs} }

// as returns the name by which the manager and the file system know the caller.
func as(ctx context.Context) string { return serve.UserName(serve.CallerOf(ctx).UID) }

// away says whose fault an error is that is not the manager's answer.
func away(err error) error {
	if connect.CodeOf(err) == connect.CodeUnavailable && !connect.IsWireError(err) {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the manager of the cluster cannot be reached: %w", err))
	}
	return err
}

// Warm passes on.
func (f forward) Warm(ctx context.Context, q *wire.WarmInputsRequest) (*wire.InputsStatus, error) {
	q.User = as(ctx)
	res, err := f.to.Warm(ctx, q)
	return res, away(err)
}

// Cool passes on.
func (f forward) Cool(ctx context.Context, q *wire.CoolInputsRequest) (*wire.CoolInputsResponse, error) {
	q.User = as(ctx)
	res, err := f.to.Cool(ctx, q)
	return res, away(err)
}

// Inputs passes on.
func (f forward) Inputs(ctx context.Context, q *wire.InputsRequest) (*wire.InputsResponse, error) {
	q.User = as(ctx)
	res, err := f.to.Inputs(ctx, q)
	return res, away(err)
}

// Places passes on.
func (f forward) Places(ctx context.Context, q *wire.PlacesRequest) (*wire.PlacesResponse, error) {
	q.User = as(ctx)
	res, err := f.to.Places(ctx, q)
	return res, away(err)
}

// CachedInputs passes on.
func (f forward) CachedInputs(ctx context.Context, q *wire.CachedInputsRequest, out *connect.ServerStream[wire.CachedInputsChunk]) error {
	q.User = as(ctx)
	in, err := f.to.CachedInputs(ctx, q)
	if err != nil {
		return away(err)
	}
	defer in.Close()
	for in.Receive() {
		if err := out.Send(in.Msg()); err != nil {
			return err
		}
	}
	return away(in.Err())
}

// Follow passes on.
func (f forward) Follow(ctx context.Context, q *wire.FollowRequest) (*wire.FollowResponse, error) {
	q.User = as(ctx)
	res, err := f.to.Follow(ctx, q)
	return res, away(err)
}

// Exchange is between nodes and the manager.
func (forward) Exchange(context.Context, *wire.ExchangeRequest) (*wire.ExchangeResponse, error) {
	return nil, fmt.Errorf("%w: only nodes report blocks, to the manager", serve.ErrDenied)
}
