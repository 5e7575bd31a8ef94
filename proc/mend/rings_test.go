package mend

import (
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/criu/image"
)

func TestWithoutRings(t *testing.T) {
	const copied, own, aio = 0x1000, 0x3000, 1 << 13
	mm := image.Message{}.SetUint(image.MMExe, 7)
	for _, at := range []uint64{copied, own} {
		ring := image.Message{}.SetUint(image.VMAStart, at).SetUint(image.VMAEnd, at+0x1000).SetUint(image.VMAFlags, unix.MAP_SHARED).SetUint(image.VMAStatus, aio)
		mm = append(mm, image.Message{}.SetMessage(image.MMVMA, ring)...)
		mm = append(mm, image.Message{}.SetMessage(image.MMAIO, image.Message{}.SetUint(image.AIOStart, at))...)
	}
	got, err := withoutRings(mm, []uint64{copied})
	if err != nil {
		t.Fatal(err)
	}
	contexts, err := got.Messages(image.MMAIO)
	if err != nil || len(contexts) != 1 {
		t.Fatalf("%d contexts, %v", len(contexts), err)
	}
	if at, _ := contexts[0].Uint(image.AIOStart); at != own {
		t.Errorf("the context at %#x is left", at)
	}
	vmas, err := got.Messages(image.MMVMA)
	if err != nil || len(vmas) != 2 {
		t.Fatalf("%d mappings, %v", len(vmas), err)
	}
	for i, want := range [][2]uint64{{unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, image.VMARegular | image.VMAPrivAnon}, {unix.MAP_SHARED, aio}} {
		flags, _ := vmas[i].Uint(image.VMAFlags)
		if status, _ := vmas[i].Uint(image.VMAStatus); flags != want[0] || status != want[1] {
			t.Errorf("mapping %d has flags %#x and status %#x, want %#x", i, flags, status, want)
		}
	}
	if _, err := withoutRings(mm, []uint64{0x5000}); err == nil {
		t.Error("no error for a ring that is not there")
	}
}
