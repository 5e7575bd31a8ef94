package solo

import (
	"errors"
	"testing"

	"headrace/wire"
)

func TestRecordsThatNeverFit(t *testing.T) {
	for _, c := range []struct {
		record, buffer, usual int64
		ok                    bool
	}{
		{1 << 40, 0, 0, false}, {200 << 20, 0, 0, false}, {200 << 20, 300 << 20, 0, true}, {200 << 20, 0, 300 << 20, true},
		{200 << 20, 100 << 20, 300 << 20, false}, {100, 0, 0, true},
	} {
		err := checkRecord(&wire.Input{Split: wire.Split_SPLIT_FIXED, RecordSize: c.record, Buffer: c.buffer}, c.usual)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, errInput) {
			t.Errorf("records of %d, buffer %d, usually %d: %v", c.record, c.buffer, c.usual, err)
		}
	}
}
