package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
)

func TestCoded(t *testing.T) {
	own := fmt.Errorf("what another package says")
	others := []Kind{{own, connect.CodeAborted}}
	for _, c := range []struct {
		err  error
		want connect.Code
	}{
		{Refusal("%d is too much", 7), connect.CodeInvalidArgument},
		{fmt.Errorf("x: %w", ErrBusy), connect.CodeResourceExhausted},
		{own, connect.CodeAborted},
		{fmt.Errorf("%w: %w", ErrStopping, own), connect.CodeUnavailable},
		{fmt.Errorf("%w: %w", ErrState, context.Canceled), connect.CodeCanceled},
		{ErrState, connect.CodeFailedPrecondition},
		{connect.NewError(connect.CodeDataLoss, ErrInput), connect.CodeDataLoss},
		{fmt.Errorf("nobody knows"), connect.CodeInternal},
	} {
		if got := connect.CodeOf(Coded(c.err, others...)); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	if err := Coded(nil, others...); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}

// TestNobodyIsRoot: a request without a caller is refused, and where that was
// forgotten it does not become root's.
func TestNobodyIsRoot(t *testing.T) {
	handler := Interceptor().WrapUnary(func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
		return nil, fmt.Errorf("asked by %d: %w", CallerOf(ctx).UID, ErrDenied)
	})
	if _, err := handler(t.Context(), nil); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("nobody asks: %v", err)
	}
	if _, err := handler(WithCaller(t.Context(), Caller{}), nil); connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "asked by 0") {
		t.Errorf("root asks: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("there is a caller where none was named")
		}
	}()
	CallerOf(t.Context())
}
