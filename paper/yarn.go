package paper

// YARN is what checkpoint-preemption measured on a YARN cluster with a workload of two
// priorities (section 5.3).
type YARN struct {
	// KillWastes is the share of the processor time that killing wastes (figure 8a).
	KillWastes float64
	// Less is how much less checkpointing wastes than killing, by medium (figure 8a).
	Less map[string]float64
	// AdaptiveFaster is how much faster jobs of low and high priority respond with adaptive
	// than with checkpoints always, by medium (figure 10).
	AdaptiveFaster map[string][2]float64
}

// OnYARN returns the numbers.
func OnYARN() YARN {
	return YARN{KillWastes: 0.28,
		Less:           map[string]float64{"hdd": 0.5, "ssd": 0.65, "nvm": 0.67},
		AdaptiveFaster: map[string][2]float64{"hdd": {0.28, 0.07}, "ssd": {0.16, 0.08}, "nvm": {0.20, 0.14}}}
}
