package mend

import (
	"slices"
	"testing"

	"headrace/internal/criu/image"
)

func TestPeersComeFirst(t *testing.T) {
	other := unixSocket{} // another kind of file
	for name, c := range map[string]struct{ in, want []unixSocket }{
		"pair":         {[]unixSocket{{1, 2}, other, {2, 1}}, []unixSocket{{1, 2}, other, {2, 1}}},
		"to itself":    {[]unixSocket{{1, 1}}, []unixSocket{{1, 1}}},
		"outside":      {[]unixSocket{{1, 7}, {2, 0}}, []unixSocket{{1, 7}, {2, 0}}},
		"not accepted": {[]unixSocket{{1, 2}, other, {3, 2}, {2, 0}}, []unixSocket{{2, 0}, {1, 2}, other, {3, 2}}},
		"in a row":     {[]unixSocket{{1, 2}, {2, 3}, {3, 0}}, []unixSocket{{3, 0}, {2, 3}, {1, 2}}},
		"ring":         {[]unixSocket{{1, 2}, {2, 3}, {3, 1}}, []unixSocket{{3, 1}, {2, 3}, {1, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []image.Message
			for i, s := range c.in {
				e := image.Message{}.SetUint(image.FileID, uint64(i))
				if s != other {
					e = e.SetMessage(image.FileUnix, image.Message{}.SetUint(image.UnixInode, s.inode).SetUint(image.UnixPeer, s.peer))
				}
				entries = append(entries, e)
			}
			sorted, err := peersFirst(entries)
			if err != nil || (sorted == nil) != slices.Equal(c.in, c.want) {
				t.Errorf("got %v, %v", sorted, err)
			}
			if sorted == nil {
				sorted = entries
			}
			var got []unixSocket
			for _, e := range sorted {
				s, err := unixSocketOf(e)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, s)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
