package mend

import (
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/criu/image"
)

func TestMarkReserved(t *testing.T) {
	const private = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	for name, c := range map[string]struct {
		size, prot, flags uint64
		marked            bool
	}{
		"reserved":        {8 << 40, unix.PROT_NONE, private, true},
		"a large file":    {reservedFrom, unix.PROT_READ, unix.MAP_PRIVATE, true},
		"ordinary":        {reservedFrom - 4096, unix.PROT_NONE, private, false},
		"writable":        {8 << 40, unix.PROT_READ | unix.PROT_WRITE, private, false},
		"shared":          {8 << 40, unix.PROT_NONE, unix.MAP_SHARED | unix.MAP_ANONYMOUS, false},
		"not counted now": {8 << 40, unix.PROT_NONE, private | unix.MAP_NORESERVE, false},
		"huge pages":      {8 << 40, unix.PROT_NONE, private | unix.MAP_HUGETLB, false},
	} {
		t.Run(name, func(t *testing.T) {
			small := vma(4096, unix.PROT_READ, private)
			mm := image.Message{}.SetUint(image.MMExe, 7)
			mm = append(mm, image.Message{}.SetMessage(image.MMVMA, small)...)
			mm = append(mm, image.Message{}.SetMessage(image.MMVMA, vma(c.size, c.prot, c.flags))...)
			got, n, err := markReserved(mm)
			if err != nil {
				t.Fatal(err)
			}
			list, err := got.Messages(image.MMVMA)
			if err != nil || len(list) != 2 {
				t.Fatalf("%d mappings, %v", len(list), err)
			}
			if exe, _ := got.Uint(image.MMExe); exe != 7 {
				t.Errorf("another field is %d now", exe)
			}
			want := c.flags
			if c.marked {
				want |= unix.MAP_NORESERVE
			}
			if flags, _ := list[1].Uint(image.VMAFlags); flags != want || (n == 1) != c.marked {
				t.Errorf("flags %#x, want %#x; %d changed", flags, want, n)
			}
			if flags, _ := list[0].Uint(image.VMAFlags); flags != private {
				t.Errorf("the flags of another mapping are %#x", flags)
			}
		})
	}
}

func vma(size, prot, flags uint64) image.Message {
	const at = 0x10000
	return image.Message{}.SetUint(image.VMAStart, at).SetUint(image.VMAEnd, at+size).SetUint(image.VMAProt, prot).SetUint(image.VMAFlags, flags)
}
