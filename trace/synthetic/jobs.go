package synthetic

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"headrace"
)

// dayJob is a job before its tasks are made. All of its tasks ask for the same.
type dayJob struct {
	band     int
	tasks    int
	priority headrace.Priority
	class    uint8
	submit   time.Duration
	cpus     float64
	memory   float64
	run      float64 // the median of its tasks, in seconds, not yet scaled to CoreHours
	grow     float64
	dirty    float64 // share in a second
}

// bandGenerator makes the jobs of one band.
type bandGenerator struct {
	band   *DayBand
	index  int
	seed   uint64
	scale  float64
	length float64 // of the day, in seconds
}

func (g *bandGenerator) random(purpose int) *rand.Rand { return random(g.seed, g.index, purpose) }

// jobs makes n jobs with that many tasks together, the largest first.
func (g *bandGenerator) jobs(n, tasks int) []dayJob {
	list := make([]dayJob, n)
	for i, size := range g.sizes(n, tasks) {
		list[i] = dayJob{band: g.index, tasks: size}
	}
	first := dayFirst[g.index]
	for i, p := range deal(g.random(forPriorities), list, tasks, g.band.Priorities) {
		list[i].priority = first + headrace.Priority(p)
	}
	for i, c := range deal(g.random(forClasses), list, tasks, g.band.Classes) {
		list[i].class = uint8(c)
	}
	g.shape(list, tasks)
	g.arrive(list)
	return list
}

// sizes returns the numbers of tasks of n jobs, the largest first; n is at most tasks.
func (g *bandGenerator) sizes(n, tasks int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = 1
	}
	more := n - int(math.Round(float64(n)*g.band.Size.Single))
	if tasks > n {
		more = max(more, 1)
	}
	if more == 0 {
		return sizes
	}
	want := tasks - (n - more)
	mean := float64(want) / float64(more)
	most := float64(g.band.Size.Most) * min(1, g.scale)
	most = min(max(most, 4*mean, 2), float64(want))
	least := 2.0
	if mean < 2.5 {
		least = 1
	}
	u := make([]float64, more)
	r := g.random(forSizes)
	for i := range u {
		u[i] = (float64(i) + r.Float64()) / float64(more)
	}
	wholeSizes(sizes[:more], paretoWithSum(u, least, most, float64(want)), want)
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	return sizes
}

// paretoWithSum is values of a bounded Pareto distribution at the given levels, with
// the exponent that makes their sum what is wanted.
func paretoWithSum(levels []float64, least, most, want float64) []float64 {
	values := make([]float64, len(levels))
	low, high := -30.0, 30.0
	for range 60 {
		alpha := (low + high) / 2
		sum := 0.0
		for i, u := range levels {
			values[i] = boundedPareto(u, alpha, least, most)
			sum += values[i]
		}
		if sum > want {
			low = alpha
		} else {
			high = alpha
		}
	}
	return values
}

// boundedPareto returns the value that the share u of a bounded Pareto distribution
// does not exceed. With alpha 0 the logarithm is evenly distributed, with -1 the value.
func boundedPareto(u, alpha, least, most float64) float64 {
	ratio := most / least
	if math.Abs(alpha) < 1e-9 {
		return least * math.Exp(u*math.Log(ratio))
	}
	tail := math.Exp(-alpha * math.Log(ratio))
	return min(most, least*math.Exp(-math.Log(1-u*(1-tail))/alpha))
}

// wholeSizes rounds values so that their sum is as wanted, and none is below 1.
func wholeSizes(sizes []int, values []float64, want int) {
	carry := 0.0
	for i, v := range values {
		whole := math.Max(1, math.Round(v+carry))
		carry += v - whole
		sizes[i] = int(whole)
		want -= int(whole)
	}
	for i := len(sizes) - 1; want != 0; i-- { // the largest are last
		if i < 0 {
			i = len(sizes) - 1
		}
		change := want
		if want < 0 {
			change = max(want, 1-sizes[i])
		}
		sizes[i] += change
		want -= change
	}
}

// deal gives each job one of as many labels as there are shares, so that the tasks
// of the label have their share. Jobs come the largest first; one goes to a label at
// random, in proportion to the tasks that labels lack, among those that lack as
// many as it has.
func deal(r *rand.Rand, jobs []dayJob, tasks int, shares []float64) []int {
	lack := apportion(tasks, shares)
	labels := make([]int, len(jobs))
	for i := range jobs {
		size, room := jobs[i].tasks, 0
		for _, n := range lack {
			if n >= size {
				room += n
			}
		}
		to := 0
		if room == 0 {
			for l := range lack {
				if lack[l] > lack[to] {
					to = l
				}
			}
		} else {
			at := r.IntN(room)
			for l, n := range lack {
				if n < size {
					continue
				}
				if at -= n; at < 0 {
					to = l
					break
				}
			}
		}
		labels[i] = to
		lack[to] -= size
	}
	return labels
}

// shape draws what the jobs' tasks ask for and how long they run.
func (g *bandGenerator) shape(list []dayJob, tasks int) {
	b := g.band
	points := newLattice(g.random(forShapes))
	cpus := make([]float64, len(list))
	memory := make([]float64, len(list))
	for i := range list {
		z := points.next()
		forCPUs := correlated(z[0], z[1], b.CPUs.WithRun)
		cpus[i] = math.Exp(b.CPUs.Sigma * forCPUs)
		memory[i] = math.Exp(b.Memory.Sigma * correlated(forCPUs, z[2], b.Memory.WithCPUs))
		list[i].run = math.Exp(b.Run.JobSigma * z[0])
		list[i].grow = b.Memory.GrowSeconds * math.Exp(b.Memory.GrowSigma*z[3])
		list[i].dirty = min(1, b.Memory.DirtyShare*math.Exp(b.Memory.DirtySigma*z[4]))
	}
	// The sums at scale 1 belong to the share of tasks at scale 1.
	scaleToSum(list, cpus, b.Cores*g.scale, b.CPUs.Least, b.CPUs.Most)
	scaleToSum(list, memory, b.Memory.Mean*float64(tasks), b.Memory.Least, b.Memory.Most)
	for i := range list {
		list[i].cpus = math.Max(1e-4, math.Round(cpus[i]*1e4)/1e4)
		list[i].memory = math.Max(1, math.Round(memory[i]/(1<<20))) * (1 << 20)
	}
}

// correlated returns a normally distributed number whose correlation with x is as
// given, made of x and one that is independent of it.
func correlated(x, independent, correlation float64) float64 {
	return correlation*x + math.Sqrt(1-correlation*correlation)*independent
}

// scaleToSum multiplies the values of jobs by a common factor, and bounds them, such
// that their sum over all tasks is as wanted, or as near as the bounds allow.
func scaleToSum(list []dayJob, values []float64, want, least, most float64) {
	sum := func(factor float64) (sum float64) {
		for i, v := range values {
			sum += float64(list[i].tasks) * min(max(v*factor, least), most)
		}
		return sum
	}
	low, high := -60.0, 60.0 // of the factor's logarithm
	for range 60 {
		middle := (low + high) / 2
		if sum(math.Exp(middle)) > want {
			high = middle
		} else {
			low = middle
		}
	}
	for i, v := range values {
		values[i] = min(max(v*math.Exp(low), least), most)
	}
}

// lattice is a sequence of points with normally distributed coordinates that fills
// each of them evenly, so that the few largest jobs, too, are a fair sample: an
// additive recurrence by irrational steps (Richtmyer 1951), from a random start. The
// first coordinate has the golden ratio, which is the most even.
type lattice struct{ at [5]float64 }

func newLattice(r *rand.Rand) *lattice {
	var l lattice
	for i := range l.at {
		l.at[i] = r.Float64()
	}
	return &l
}

// latticeSteps are fractions of the golden ratio and of the roots of 2, 3, 7 and 11.
var latticeSteps = [5]float64{0.6180339887498949, 0.4142135623730951, 0.7320508075688772, 0.6457513110645907, 0.3166247903553998}

func (l *lattice) next() (z [5]float64) {
	for i := range l.at {
		l.at[i] += latticeSteps[i]
		if l.at[i] >= 1 {
			l.at[i]--
		}
		u := min(max(l.at[i], 1e-9), 1-1e-9)
		z[i] = math.Sqrt2 * math.Erfinv(2*u-1)
	}
	return z
}
