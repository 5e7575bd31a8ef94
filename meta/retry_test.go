package meta

import (
	"errors"
	"reflect"
	"testing"
)

// TestAnswerBytes: answers and errors are what they were after they were bytes; cut ones are refused.
func TestAnswerBytes(t *testing.T) {
	for _, c := range []struct {
		r   Result
		err error
	}{{nil, nil}, {flag(true), nil}, {flag(false), nil}, {&Allocated{LocatedBlock{Block: Block{ID: 7}}}, nil}, {&Status{Name: "f", Size: 9}, nil}, {nil, fail(classIO, "no %d", 1)}} {
		b := EncodeAnswer(c.r, c.err)
		r, err := DecodeAnswer(b)
		if !reflect.DeepEqual(r, c.r) || (err == nil) != (c.err == nil) || err != nil && err.Error() != c.err.Error() {
			t.Errorf("%v %v, and was %v %v", r, err, c.r, c.err)
		}
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			t.Errorf("%T", err)
		}
		for i := range b {
			if _, err := DecodeAnswer(b[:i]); !errors.Is(err, errCode) {
				t.Errorf("cut to %d bytes: %v", i, err)
			}
		}
	}
}
