package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"connectrpc.com/connect"

	"headrace/internal/accounts"
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

// as returns the name by which the manager and the file system know the caller: the number
// of one whom nobody knows. It may block, as accounts do.
func as(ctx context.Context) (string, error) {
	uid := serve.CallerOf(ctx).UID
	who, err := accounts.Here.UserOf(uid)
	if errors.Is(err, accounts.ErrUnknown) {
		return strconv.FormatUint(uint64(uid), 10), nil
	}
	return who.Name, err
}

// away says whose fault an error is that is not the manager's answer.
func away(err error) error {
	if connect.CodeOf(err) == connect.CodeUnavailable && !connect.IsWireError(err) {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the manager of the cluster cannot be reached: %w", err))
	}
	return err
}

// Warm passes on.
func (f forward) Warm(ctx context.Context, q *wire.WarmInputsRequest) (res *wire.InputsStatus, err error) {
	if q.User, err = as(ctx); err != nil {
		return nil, err
	}
	res, err = f.to.Warm(ctx, q)
	return res, away(err)
}

// Cool passes on.
func (f forward) Cool(ctx context.Context, q *wire.CoolInputsRequest) (res *wire.CoolInputsResponse, err error) {
	if q.User, err = as(ctx); err != nil {
		return nil, err
	}
	res, err = f.to.Cool(ctx, q)
	return res, away(err)
}

// Inputs passes on.
func (f forward) Inputs(ctx context.Context, q *wire.InputsRequest) (res *wire.InputsResponse, err error) {
	if q.User, err = as(ctx); err != nil {
		return nil, err
	}
	res, err = f.to.Inputs(ctx, q)
	return res, away(err)
}

// Places passes on.
func (f forward) Places(ctx context.Context, q *wire.PlacesRequest) (res *wire.PlacesResponse, err error) {
	if q.User, err = as(ctx); err != nil {
		return nil, err
	}
	res, err = f.to.Places(ctx, q)
	return res, away(err)
}

// CachedInputs passes on.
func (f forward) CachedInputs(ctx context.Context, q *wire.CachedInputsRequest, out *connect.ServerStream[wire.CachedInputsChunk]) (err error) {
	if q.User, err = as(ctx); err != nil {
		return err
	}
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
func (f forward) Follow(ctx context.Context, q *wire.FollowRequest) (res *wire.FollowResponse, err error) {
	if q.User, err = as(ctx); err != nil {
		return nil, err
	}
	res, err = f.to.Follow(ctx, q)
	return res, away(err)
}

// Exchange is between nodes and the manager.
func (forward) Exchange(context.Context, *wire.ExchangeRequest) (*wire.ExchangeResponse, error) {
	return nil, fmt.Errorf("%w: only nodes report blocks, to the manager", serve.ErrDenied)
}
