package linux

import (
	"bufio"
	"cmp"
	"os"
	"slices"
	"strings"
)

// Processor is what programs find in /proc/cpuinfo about the first one.
type Processor struct {
	Vendor string
	Model  string // empty where there is none, as on arm64
	// Flags are its extensions, sorted.
	Flags []string
}

// Processor describes the processors, which are taken to be alike.
func (p ProcFS) Processor() (Processor, error) {
	text, err := os.ReadFile(p.path("cpuinfo"))
	return parseProcessor(string(text)), err
}

func parseProcessor(text string) (p Processor) {
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		name, value, _ := strings.Cut(sc.Text(), ":")
		switch strings.TrimSpace(name) {
		case "vendor_id", "CPU implementer":
			p.Vendor = cmp.Or(p.Vendor, strings.TrimSpace(value))
		case "model name":
			p.Model = cmp.Or(p.Model, strings.TrimSpace(value))
		case "flags", "Features":
			if p.Flags == nil {
				p.Flags = strings.Fields(value)
			}
		}
	}
	slices.Sort(p.Flags)
	p.Flags = slices.Compact(p.Flags)
	return p
}

var kernelFlags = strings.Fields(`
	acpi amd_ibrs amd_ssbd amd_stibp aperfmperf apic arat arch_capabilities arch_perfmon avic bpext bts
	bus_lock_detect cat_l2 cat_l3 cdp_l2 cdp_l3 clzero cmp_legacy constant_tsc cpb cpuid cpuid_fault cqm cqm_llc
	cqm_mbm_local cqm_mbm_total cqm_occup_llc cr8_legacy dca de debug_swap decodeassists ds_cpl dtes64 dtherm dts
	ept ept_ad est extapic extd_apicid flexpriority flush_l1d flushbyasid hfi ht hw_pstate hwp hwp_act_window
	hwp_epp hwp_notify hwp_pkg_req hypervisor ibpb ibpb_exit_to_user ibrs ibrs_enhanced ibs ida intel_stibp
	invpcid invpcid_single irperf lbrv mba mca mce md_clear monitor mtrr nodeid_msr nonstop_tsc nonstop_tsc_s3
	nopl npt nrip_save osvw overflow_recov pat pausefilter pbe pcid pdcm pebs perfctr_core perfctr_llc perfctr_nb
	pfthreshold pge pln proc_feedback pse pse36 pti pts rdt_a rep_good retpoline rsb_ctxsw sdbg sev sev_es
	sev_snp skinit smap smca sme smep smx spec_ctrl split_lock_detect ssbd stibp stibp_always_on succor svm
	svm_lock tce tm tm2 topoext tpr_shadow tsc_adjust tsc_deadline_timer tsc_known_freq tsc_reliable tsc_scale
	umip v_spec_ctrl v_vmsave_vmload vgif virt_ssbd vmcb_clean vme vmx vnmi vpid wbnoinvd wdt x2apic x2avic
	xsaveerptr xtopology xtpr
`)

// Lacks returns those of flags that it has not and a program may use.
func (p Processor) Lacks(flags []string) []string {
	var missing []string
	for _, f := range flags {
		if !slices.Contains(kernelFlags, f) && !slices.Contains(p.Flags, f) {
			missing = append(missing, f)
		}
	}
	return missing
}
