package linux

import (
	"slices"
	"testing"
)

func TestParseProcessor(t *testing.T) {
	p := parseProcessor("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon: 9\nflags\t\t: sse fpu avx fpu\n\nprocessor\t: 1\nvendor_id\t: Other\nflags\t\t: x\n")
	if p.Vendor != "GenuineIntel" || p.Model != "Xeon: 9" || !slices.Equal(p.Flags, []string{"avx", "fpu", "sse"}) {
		t.Errorf("%+v", p)
	}
	if got := p.Lacks([]string{"avx", "avx512f", "hypervisor"}); !slices.Equal(got, []string{"avx512f"}) {
		t.Errorf("it lacks %q", got)
	}
	p = parseProcessor("Features\t: fp asimd\nCPU implementer\t: 0x41\n")
	if p.Vendor != "0x41" || !slices.Equal(p.Flags, []string{"asimd", "fp"}) {
		t.Errorf("%+v", p)
	}
	if here, err := ProcFS("").Processor(); err != nil || len(here.Flags) == 0 || len(here.Lacks(here.Flags)) != 0 {
		t.Errorf("%+v, %v", here, err)
	}
}
