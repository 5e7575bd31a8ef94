package paper

// Day is what checkpoint-preemption says of Google's trace and of its simulation
// of one day of it. Shares are from 0 to 1.
type Day struct {
	// Jobs, Tasks and Cores are the size of the day (section 3.3.2).
	Jobs  int
	Tasks int
	Cores float64
	// WastedCoreHours is what killing wastes in the day, WasteShare its share of what
	// is used (section 3.3.2; section 2 has the same share for the whole trace).
	WastedCoreHours float64
	WasteShare      float64

	// Bands and Classes are tables 1 and 2, from the whole trace.
	Bands   []Rate
	Classes []Rate
	// Preempted is the share of all schedulings that ended with a preemption, FreeShare
	// the share of the preemptions that were of the free band, which is at least so
	// much (section 2, figure 1b).
	Preempted float64
	FreeShare float64
	// Repeated is the share of the tasks ever preempted that were preempted more than
	// once, Often that of those preempted ten times or more (figure 1c).
	Repeated float64
	Often    float64

	// Wastes are figure 3a, Responses figures 3c and 5, as far as the text gives them.
	Wastes    []Waste
	Responses []Response
	// Energy is how checkpoints on NVM change the energy that is drawn, against killing
	// (figure 3b).
	Energy float64
}

// Rate is a line of table 1 or 2. What the tables call the number of tasks
// is how often tasks were scheduled, and the percentage that of schedulings which
// ended with a preemption: 47.4 million are more than the trace has tasks (25
// million), and as many as it has events of scheduling.
type Rate struct {
	Name      string
	Scheduled float64
	Preempted float64
}

// Waste is the share of the CPUs' time that a policy wastes.
type Waste struct {
	Policy string
	Medium string
	Share  float64
}

// Response is how a policy changes the response time of a band's jobs,
// against another policy on the same medium: -0.74 is 74 % shorter.
type Response struct {
	Policy  string
	Against string
	Medium  string
	Band    string
	// Change is 0 where the paper has words only.
	Change float64
	Words  string
	Source string
}

// GoogleDay returns the numbers. The caller may change what it gets.
func GoogleDay() Day {
	return Day{
		Jobs: 15_000, Tasks: 600_000, Cores: 22_000,
		WastedCoreHours: 3400, WasteShare: 0.35,
		Bands: []Rate{
			{"free", 28.4e6, 0.2026},
			{"middle", 17.3e6, 0.0055},
			{"production", 1.7e6, 0.0102},
		},
		Classes: []Rate{
			{"0", 37.4e6, 0.1176},
			{"1", 5.94e6, 0.1887},
			{"2", 3.70e6, 0.0814},
			{"3", 0.28e6, 0.1480},
		},
		Preempted: 0.124, FreeShare: 0.9,
		Repeated: 0.435, Often: 0.17,
		Wastes: []Waste{
			{"kill", "", 0.35},
			{"checkpoint", "hdd", 0.146},
			{"checkpoint", "ssd", 0.111},
			{"checkpoint", "nvm", 0.085},
		},
		Responses: responses(),
		Energy:    -0.05,
	}
}

func responses() []Response {
	var all []Response
	add := func(policy, against, source, medium, band string, change float64, words string) {
		all = append(all, Response{policy, against, medium, band, change, words, source})
	}
	basic := func(medium, band string, change float64, words string) {
		add("checkpoint", "kill", "figure 3c", medium, band, change, words)
	}
	basic("hdd", "free", 0, "shorter")
	basic("hdd", "middle", 0, "longer")
	basic("hdd", "production", 0, "longer")
	basic("ssd", "free", 0, "shorter")
	basic("ssd", "middle", 0, "slightly longer")
	basic("ssd", "production", 0, "comparable")
	basic("nvm", "free", -0.74, "")
	basic("nvm", "middle", -0.23, "")
	basic("nvm", "production", 0, "similar")
	adaptive := func(medium, band string, change float64, words string) {
		add("adaptive", "checkpoint", "figure 5", medium, band, change, words)
	}
	adaptive("hdd", "free", -0.36, "")
	adaptive("hdd", "middle", -0.55, "")
	adaptive("hdd", "production", -0.29, "")
	adaptive("ssd", "free", -0.12, "")
	adaptive("ssd", "middle", -0.17, "")
	adaptive("ssd", "production", -0.08, "")
	adaptive("nvm", "free", -0.03, "")
	adaptive("nvm", "middle", -0.08, "")
	adaptive("nvm", "production", 0, "comparable to kill")
	return all
}

// UsefulCoreHours returns what the day's tasks need, which the paper does not say but
// which follows from what it does.
func (p Day) UsefulCoreHours() float64 {
	return p.WastedCoreHours / p.WasteShare * (1 - p.WasteShare)
}

// BandTasks returns the shares of the tasks, not of the schedulings, in each band: a
// task that is preempted is scheduled once more.
func (p Day) BandTasks() []float64 { return firstSchedulings(p.Bands) }

// ClassTasks returns the shares of the tasks in each class.
func (p Day) ClassTasks() []float64 { return firstSchedulings(p.Classes) }

func firstSchedulings(rates []Rate) []float64 {
	shares, sum := make([]float64, len(rates)), 0.0
	for i, r := range rates {
		shares[i] = r.Scheduled * (1 - r.Preempted)
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// Waste returns the share that a policy wastes on a medium, and whether it is published.
func (p Day) Waste(policy, medium string) (share float64, ok bool) {
	for _, w := range p.Wastes {
		if w.Policy == policy && (w.Medium == medium || w.Medium == "") {
			return w.Share, true
		}
	}
	return 0, false
}

// Response returns how a policy changes the response of a band's jobs, and whether the
// paper says so.
func (p Day) Response(policy, against, medium, band string) (r Response, ok bool) {
	for _, r := range p.Responses {
		if r.Policy == policy && r.Against == against && r.Medium == medium && r.Band == band {
			return r, true
		}
	}
	return r, false
}
